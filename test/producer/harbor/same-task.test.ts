import { cp, mkdtemp, rm, utimes, writeFile, chmod, rename } from 'node:fs/promises';
import { createHash } from 'node:crypto';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { PassThrough } from 'node:stream';
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { planProduce, tasksContent } from '../../../producer/index.ts';
import { contentHash, taskSchema, type FileContent } from '../../../src/contracts/index.ts';
import { defaultRunId, printFaults } from '../../../src/cli/tasks-file.ts';
import { goodTask, readAll, writeTask, type Entries } from './task-directory.ts';

let root: string;
beforeAll(async () => {
  root = await mkdtemp(join(tmpdir(), `rollpool-${process.pid}-same-`));
});
afterAll(() => rm(root, { recursive: true }));

let made = 0;
const place = (): string => join(root, `folder-${made++}`, 'task');

const bytesOf = (content: FileContent): Buffer =>
  typeof content === 'string' ? Buffer.from(content, 'utf8') : Buffer.from(content.base64, 'base64');

async function contentOf(path: string): Promise<string> {
  const hash = createHash('sha256');
  for await (const chunk of tasksContent(path)) hash.update(chunk);
  return hash.digest('hex');
}

const name = fc
  .string({ unit: 'binary', minLength: 1, maxLength: 12 })
  .filter(
    (text) =>
      !/[/\0]/.test(text) &&
      !['.', '..', '__pycache__', '.DS_Store', '__proto__', '.harborignore', '.dockerignore'].includes(
        text,
      ) &&
      Buffer.byteLength(text) < 200 &&
      Buffer.from(text).toString() === text,
  );
const bytes = fc.oneof(
  fc.uint8Array({ maxLength: 64 }).map((drawn) => Buffer.from(drawn)),
  fc.string({ unit: 'binary' }).map((text) => Buffer.from(text, 'utf8')),
);
/** Files of one directory each, so that no name is both a file and a directory. */
const files = fc.dictionary(name, bytes, { maxKeys: 5 });

it('whatever files a task has, they are in the task byte for byte, and the task is the same however they came there', async () => {
  await fc.assert(
    fc.asyncProperty(files, files, async (context, tests) => {
      const entries: Record<string, Buffer> = {};
      for (const [file, drawn] of Object.entries(context)) entries[`environment/d/${file}`] = drawn;
      for (const [file, drawn] of Object.entries(tests)) entries[`tests/d/${file}`] = drawn;
      const path = await writeTask(place(), entries);
      const { tasks, report } = await readAll(path);
      expect(report.faults).toEqual([]);
      const [task] = tasks;
      for (const [file, drawn] of Object.entries(context)) {
        expect(bytesOf(task!.sandbox.build!.files[`d/${file}`]!)).toEqual(drawn);
      }
      for (const [file, drawn] of Object.entries(tests)) {
        expect(bytesOf(task!.verify.files[`d/${file}`]!)).toEqual(drawn);
      }
      // What is kept in Redis is JSON.
      expect(taskSchema.parse(JSON.parse(JSON.stringify(task)))).toEqual(task);

      const other = await writeTask(place(), Object.fromEntries(Object.entries(entries).reverse()));
      await utimes(join(other, 'tests', 'test.sh'), 1, 1);
      const [again] = (await readAll(other)).tasks;
      expect(contentHash(again)).toBe(contentHash(task));
      expect(await contentOf(other)).toBe(await contentOf(path));
    }),
    { numRuns: 30 },
  );
});

it('a linked file and a copy of it are the same task', async () => {
  const over: Entries = { 'environment/a': 'x', 'environment/b': { link: 'a' } };
  const linked = await writeTask(place(), over);
  const copied = await writeTask(place(), { ...over, 'environment/b': 'x' });
  const [one] = (await readAll(linked)).tasks;
  const [two] = (await readAll(copied)).tasks;
  expect(contentHash(two)).toBe(contentHash(one));
});

describe('the run that a directory means', () => {
  const changes: [string, (path: string) => Promise<unknown>][] = [
    ['a test', (path) => writeFile(join(path, 'tests/test.sh'), 'exit 1')],
    ['whether a file is executable', (path) => chmod(join(path, 'tests/test.sh'), 0o644)],
    ['the instruction', (path) => writeFile(join(path, 'instruction.md'), 'Do more.')],
    ['its task.toml', (path) => writeFile(join(path, 'task.toml'), '[environment]\ncpus = 2')],
    ['a file more', (path) => writeFile(join(path, 'environment/x'), '')],
    ['the name of a file', (path) => rename(join(path, 'tests/test.sh'), join(path, 'tests/other.sh'))],
    ['the name of the task', (path) => rename(path, `${path}-2`)],
  ];
  it.each(changes)('is another after a change of %s', async (_what, change) => {
    const task = await writeTask(place());
    const folder = join(task, '..');
    const before = await defaultRunId(folder, 1, 'docker');
    await change(task);
    expect(await defaultRunId(folder, 1, 'docker')).not.toBe(before);
  });

  it('is the same for a copy, and after a change of what no episode sees', async () => {
    const task = await writeTask(place(), { 'environment/.dockerignore': 'cache' });
    const before = await defaultRunId(task, 1, 'docker');
    expect(before).toMatch(/^task-[0-9a-f]{8}$/);
    await writeTask(task, {
      ...goodTask,
      'solution/solve.sh': 'x',
      'README.md': 'x',
      'environment/cache/x': 'x',
    });
    await cp(task, `${root}/copy/task`, { recursive: true });
    expect(await defaultRunId(`${root}/copy/task`, 1, 'docker')).toBe(before);
    expect(await defaultRunId(`${root}/copy/task/../task/.`, 1, 'docker')).toBe(before);
  });
});

it('a dry run of a folder says what it would add, faults and warnings beside', async () => {
  const task = await writeTask(place(), { 'task.toml': '[environment]\nskills_dir = "/s"' });
  await writeTask(join(task, '..', 'worse'), { 'task.toml': '[environment]\ngpus = 1' });
  const plan = await planProduce(join(task, '..'), { samples: 3, sandbox: 'docker' });
  expect(plan.lanes).toEqual({ 'claude_code-docker': 3 });
  expect(plan.report).toMatchObject({ loaded: 1, refused: 1 });
  expect(plan.report.warnings).toMatchObject([{ task_key: 'task', field: 'environment.skills_dir' }]);
  const said = new PassThrough();
  printFaults(plan.report, said);
  const folder = join(task, '..');
  expect(String(said.read())).toBe(
    [
      `warning: ${folder}/task/task.toml: task 0 (task): environment.skills_dir: the agent is not given these skills`,
      `${folder}/worse/task.toml: task 1 (worse): environment.gpus: is 1: sandboxes have no GPU`,
      '1 of 2 tasks left out\n',
    ].join('\n'),
  );
});
