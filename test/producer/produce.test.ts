import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, beforeEach, afterEach, expect, it } from 'vitest';
import { produce, type ProduceOptions, type Produced } from '../../producer/index.ts';
import { openPool, outputOf, type TestPool } from '../queue/pool.ts';
import { until } from '../support/wait.ts';

let directory: string;
beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), `rollpool-${process.pid}-`));
});
afterAll(() => rm(directory, { recursive: true }));

let pool: TestPool;
beforeEach(async () => {
  pool = await openPool();
});
afterEach(() => pool[Symbol.asyncDispose]());

const task = (key: string, more: object = {}): object => ({
  task_key: key,
  prompt: `do ${key}`,
  verify: { commands: ['true'] },
  ...more,
});

let files = 0;
async function fileOf(tasks: readonly object[]): Promise<string> {
  const path = join(directory, `tasks-${files++}.jsonl`);
  await writeFile(path, tasks.map((line) => JSON.stringify(line)).join('\n'));
  return path;
}

const add = (file: string, more: Partial<ProduceOptions> = {}): Promise<Produced> =>
  produce(pool.queue, file, { run_id: 'r', samples: 2, sandbox: 'local', ...more });

it('a file becomes tasks × samples episodes that run', async () => {
  const file = await fileOf([
    task('a'),
    task('bad', { prompt: '' }),
    task('b', { colour: 'red' }),
    task('a'),
  ]);
  const { report, run, batch } = await add(file);
  expect(report).toMatchObject({ read: 4, loaded: 2, refused: 2, duplicates: 1 });
  expect(run).toEqual({ run_id: 'r', created: true });
  expect(batch).toMatchObject({
    tasks: 2,
    added: 4,
    known: 0,
    groups: 2,
    unservedLanes: ['claude_code-local'],
  });
  await pool.feeder();
  const metadata: unknown[] = [];
  await pool.worker(async (attempt) => {
    metadata.push(attempt.task.metadata);
    return outputOf(attempt);
  });
  await until(async () => (await pool.queue.runStatus('r'))?.done, 'the run is done');
  expect(metadata).toContainEqual({ colour: 'red' });
});

it('the same file again adds nothing', async () => {
  const file = await fileOf([task('a'), task('b')]);
  await add(file);
  const { run, batch } = await add(file);
  expect(run.created).toBe(false);
  expect(batch).toMatchObject({ added: 0, known: 4 });
});

it('another file, or another number of samples, is refused in the same run, by the field', async () => {
  await add(await fileOf([task('a')]));
  await expect(add(await fileOf([task('b')]))).rejects.toMatchObject({
    code: 'run_settings_differ',
    field: 'manifest_hash',
  });
  await expect(add(await fileOf([task('a')]), { samples: 3 })).rejects.toMatchObject({ field: 'samples' });
});

it.each([
  [
    'with a fault, read strictly',
    [task('a'), task('b', { prompt: '' })],
    { strict: true },
    '1 of 2 tasks have faults',
  ],
  ['of faults alone', [task('b', { prompt: '' })], {}, 'not one task could be loaded'],
  ['asked for no samples', [task('a')], { samples: 0 }, 'samples must be'],
] as [string, object[], Partial<ProduceOptions>, string][])(
  'a file %s leaves Redis as it was',
  async (_what, tasks, options, said) => {
    await expect(add(await fileOf(tasks), options)).rejects.toThrow(said);
    expect(await pool.queue.listRuns()).toEqual([]);
  },
);

it('a limit takes the first good tasks, and a later call without it the rest', async () => {
  const file = await fileOf([task('bad', { prompt: '' }), task('a'), task('b'), task('c')]);
  expect((await add(file, { limit: 1 })).batch).toMatchObject({ tasks: 1, added: 2 });
  expect((await add(file)).batch).toMatchObject({ tasks: 3, added: 4, known: 2 });
});
