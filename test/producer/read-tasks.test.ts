import { execFileSync } from 'node:child_process';
import { createWriteStream } from 'node:fs';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { once } from 'node:events';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import {
  describeFault,
  laneOf,
  planProduce,
  readTasks,
  type ReadTasksOptions,
  type TasksReport,
} from '../../producer/index.ts';

let directory: string;
beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), `rollpool-${process.pid}-`));
});
afterAll(() => rm(directory, { recursive: true }));

const task = (key: string, more: object = {}): object => ({
  task_key: key,
  prompt: `do ${key}`,
  verify: { commands: ['true'] },
  ...more,
});

let files = 0;
async function fileOf(content: string | Buffer, extension = 'json'): Promise<string> {
  const path = join(directory, `tasks-${files++}.${extension}`);
  await writeFile(path, content);
  return path;
}

async function read(
  path: string,
  options: ReadTasksOptions = {},
): Promise<{ keys: string[]; report: TasksReport }> {
  const reading = readTasks(path, options);
  const keys: string[] = [];
  for await (const { task_key } of reading) keys.push(task_key);
  return { keys, report: reading.report };
}

async function readText(
  content: string,
  extension = 'json',
  options: ReadTasksOptions = {},
): ReturnType<typeof read> {
  return read(await fileOf(content, extension), options);
}

describe('a tasks file', () => {
  const a = task('a');
  const b = task('b', { note: 'line\u2028separator' });
  it.each([
    ['an array', JSON.stringify([a, b]), 'json', 'JSON document'],
    ['an array over several lines', JSON.stringify([a, b], null, 2), 'json', 'JSON document'],
    ['an object with tasks', JSON.stringify({ version: 1, tasks: [a, b] }), 'json', 'JSON document'],
    [
      'an object with tasks over several lines',
      JSON.stringify({ tasks: [a, b] }, null, 2),
      'json',
      'JSON document',
    ],
    ['JSON lines', `${JSON.stringify(a)}\n${JSON.stringify(b)}\n`, 'jsonl', 'JSON lines'],
    [
      'JSON lines by another name, with blank lines and no end',
      `\n${JSON.stringify(a)}\r\n\n${JSON.stringify(b)}`,
      'txt',
      'JSON lines',
    ],
    [
      'JSON lines after a byte order mark',
      `\uFEFF${JSON.stringify(a)}\n${JSON.stringify(b)}`,
      'data',
      'JSON lines',
    ],
    ['an array after a byte order mark', `\uFEFF${JSON.stringify([a, b])}`, 'json', 'JSON document'],
    [
      'JSON lines with a long first line',
      `${JSON.stringify(task('a', { files: { 'x.txt': 'x'.repeat(200_000) } }))}\n${JSON.stringify(b)}`,
      'json',
      'JSON lines',
    ],
    [
      'a long object with tasks in one line',
      JSON.stringify({ tasks: [task('a', { files: { 'x.txt': 'x'.repeat(200_000) } }), b] }),
      'json',
      'JSON document',
    ],
  ])('may be %s', async (_what, content, extension, format) => {
    const { keys, report } = await readText(content, extension);
    expect(keys).toEqual(['a', 'b']);
    expect(report).toMatchObject({ format, read: 2, loaded: 2, refused: 0, duplicates: 0, faults: [] });
  });

  it.each([
    ['empty', '', 'json', 'is empty'],
    ['white space', ' \n \n', 'jsonl', 'is empty'],
    [
      'broken',
      '[\n  {"task_key": "a"},\n  {"task_key" "b"}\n]',
      'json',
      ':3:15: broken JSON: colon expected',
    ],
    ['broken by a comma too many', '[1,,2]', 'json', ':1:4: broken JSON: value expected'],
    ['cut off', '{"tasks": [{"task_key": "a"', 'json', ':1:28: broken JSON'],
    ['without tasks', '[]', 'json', 'has no tasks'],
    ['an object without tasks', '{\n"jobs": []\n}', 'json', 'array of tasks'],
    ['something else', 'task_key,prompt\na,b\n', 'csv', 'is neither JSON'],
  ])('that is %s is refused in one line', async (_what, content, extension, said) => {
    const path = await fileOf(content, extension);
    await expect(read(path)).rejects.toThrow(`${path}`);
    await expect(read(path)).rejects.toThrow(said);
  });

  it('that is no file is refused by name', async () => {
    await expect(read(join(directory, 'absent.json'))).rejects.toThrow('absent.json: there is no such file');
    await mkdir(join(directory, 'folder.json'));
    await expect(read(join(directory, 'folder.json'))).rejects.toThrow('folder.json: is a directory');
  });

  it('in another encoding is refused', async () => {
    await expect(read(await fileOf(Buffer.from('[{"task_key":"\xe9"}]', 'latin1')))).rejects.toThrow('UTF-8');
  });
});

describe('a task with a fault', () => {
  it('is reported by place, key, field and reason, and the others load', async () => {
    const { keys, report } = await readText(
      JSON.stringify([task('a'), task('b', { prompt: '' }), task('c')]),
    );
    expect(keys).toEqual(['a', 'c']);
    expect(report).toMatchObject({ read: 3, loaded: 2, refused: 1 });
    expect(report.faults).toEqual([
      {
        file: report.file,
        index: 1,
        line: null,
        task_key: 'b',
        field: 'prompt',
        reason: 'must not be empty',
      },
    ]);
    expect(describeFault(report.faults[0]!)).toBe(`${report.file}: task 1 (b): prompt: must not be empty`);
  });

  it('is told by its line where there are lines, also when the line is not JSON or not text', async () => {
    const path = await fileOf(
      Buffer.concat([
        Buffer.from(`${JSON.stringify(task('a'))}\n\n{"task_key": }\n`),
        Buffer.from('{"task_key":"\xe9"}\n', 'latin1'),
        Buffer.from(`[1]\n${JSON.stringify(task('z'))}`),
      ]),
      'jsonl',
    );
    const { keys, report } = await read(path);
    expect(keys).toEqual(['a', 'z']);
    expect(report.faults.map(({ index, line, reason }) => [index, line, reason])).toEqual([
      [1, 3, 'broken JSON at column 14: value expected'],
      [2, 4, 'the line is not UTF-8 text'],
      [3, 5, 'must be an object'],
    ]);
  });

  it('of a key that came before is left out and reported', async () => {
    const { keys, report } = await readText(
      JSON.stringify([task('a'), task('b'), task('a', { prompt: 'other' })]),
    );
    expect(keys).toEqual(['a', 'b']);
    expect(report).toMatchObject({ loaded: 2, refused: 1, duplicates: 1 });
    expect(report.faults[0]).toMatchObject({ index: 2, task_key: 'a', field: 'task_key' });
  });

  it('makes a strict reading refuse the file before the first task', async () => {
    const path = await fileOf(JSON.stringify([task('a'), task('b', { prompt: '' }), task('a')]));
    const keys: string[] = [];
    const strict = async (): Promise<void> => {
      for await (const { task_key } of readTasks(path, { strict: true })) keys.push(task_key);
    };
    await expect(strict()).rejects.toThrow(
      /2 of 3 tasks have faults\n.*task 1 \(b\): prompt.*\n.*task 2 \(a\)/,
    );
    expect(keys).toEqual([]);
    expect((await read(path, { strict: true, limit: 1 })).keys).toEqual(['a']);
  });
});

it('a limit counts tasks that load and leaves the rest unread', async () => {
  const { keys, report } = await readText(
    JSON.stringify([task('a', { prompt: '' }), task('b'), task('c'), task('d')]),
    'json',
    { limit: 2 },
  );
  expect(keys).toEqual(['b', 'c']);
  expect(report.read).toBe(3);
});

it('JSON lines are streamed: a file of 120 MB takes a small part of that', async () => {
  const path = join(directory, 'large.jsonl');
  const out = createWriteStream(path);
  const filler = 'x'.repeat(200_000);
  for (let i = 0; i < 600; i++) {
    if (!out.write(`${JSON.stringify(task(`t${i}`, { files: { 'f.txt': filler } }))}\n`))
      await once(out, 'drain');
  }
  out.end();
  await once(out, 'close');
  const before = process.memoryUsage().rss;
  let most = 0;
  let count = 0;
  for await (const _task of readTasks(path)) {
    if (++count % 50 === 0) most = Math.max(most, process.memoryUsage().rss - before);
  }
  expect(count).toBe(600);
  expect(most).toBeLessThan(100 * 2 ** 20);
});

it('a plan counts episodes by lane and adds nothing', async () => {
  const fleet = { task_key: 'f', prompt: 'book', env_key: 'booking', verifier_id: 'v' };
  const path = await fileOf(JSON.stringify([task('a'), fleet, task('b', { prompt: '' })]));
  const plan = await planProduce(path, { samples: 4, sandbox: 'docker' });
  expect(plan.lanes).toEqual({ 'claude_code-docker': 4, fleet: 4 });
  expect(plan.report.refused).toBe(1);
  await expect(planProduce(path, { samples: 0, sandbox: 'docker' })).rejects.toThrow('samples');
  const bad = await fileOf(JSON.stringify([task('b', { prompt: '' })]));
  await expect(planProduce(bad, { sandbox: 'docker' })).rejects.toThrow(/not one task[^]*prompt/);
});

it('a lane is the kind and, for a sandboxed task, who gives the sandbox', () => {
  expect(laneOf({ kind: 'fleet' }, { sandbox: 'docker' })).toBe('fleet');
  expect(laneOf({ kind: 'claude_code' }, { sandbox: 'local' })).toBe('claude_code-local');
});

describe('a file that means harm', () => {
  it('has a task that is nested too deeply left out, and its other tasks read', async () => {
    const deep = `${'{"a":'.repeat(50_000)}1${'}'.repeat(50_000)}`;
    const lines = [JSON.stringify(task('a')), `{"task_key":"b","prompt":"p","metadata":{"m":${deep}}}`, deep];
    const { keys, report } = await readText(`${lines.join('\n')}\n${JSON.stringify(task('c'))}\n`, 'jsonl');
    expect(keys).toEqual(['a', 'c']);
    expect(report.faults.map(({ line }) => line)).toContain(2);
    await expect(readText('['.repeat(300_000))).rejects.toThrow(/broken JSON/);
  });

  it('is refused when it is a pipe, without waiting for who writes into it', async () => {
    const path = join(directory, 'pipe.json');
    execFileSync('mkfifo', [path]);
    await expect(read(path)).rejects.toThrow('is not a regular file');
  });
});
