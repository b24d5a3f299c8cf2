import { existsSync, readFileSync } from 'node:fs';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { planProduce, readTasks } from '../../producer/index.ts';
import type { Task } from '../../src/contracts/index.ts';

let directory: string;
beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), `rollpool-${process.pid}-`));
});
afterAll(() => rm(directory, { recursive: true }));

async function tasksOf(path: string): Promise<Task[]> {
  const tasks: Task[] = [];
  for await (const task of readTasks(path, { strict: true })) tasks.push(task);
  return tasks;
}

const code = 'def validate_task(env):\n    return 1\n';
const byKey = (key: string): object => ({ key, prompt: 'p', env_id: 'booking', verifier_func: code });
const byTaskKey = (key: string): object => ({
  task_key: key,
  prompt: 'p',
  env_key: 'booking',
  verifier_code: code,
});

describe('an export', () => {
  it.each([
    ['an array', (tasks: readonly object[]) => JSON.stringify(tasks)],
    ['an object with tasks', (tasks: readonly object[]) => JSON.stringify({ tasks }, null, 2)],
    ['JSON lines', (tasks: readonly object[]) => tasks.map((task) => JSON.stringify(task)).join('\n')],
  ])('may be %s, of one shape or of several', async (what, text) => {
    const path = join(directory, `${what.replaceAll(' ', '-')}.json`);
    await writeFile(path, text([byKey('a'), byTaskKey('b')]));
    expect((await tasksOf(path)).map(({ task_key }) => task_key)).toEqual(['a', 'b']);
  });

  it('has the first task of each key taken, whatever its name', async () => {
    const path = join(directory, 'twice.json');
    await writeFile(path, JSON.stringify([byKey('a'), byTaskKey('a'), byKey('a')]));
    const { report } = await planProduce(path, { sandbox: 'docker' });
    expect(report).toMatchObject({ read: 3, loaded: 1, duplicates: 2 });
    expect(report.faults.map(({ index, task_key, field }) => [index, task_key, field])).toEqual([
      [1, 'a', 'task_key'],
      [2, 'a', 'key'],
    ]);
  });
});

const real = new URL('../../../shared/data/fleet_booking_tasks.json', import.meta.url).pathname;
const present = existsSync(real);
if (!present) console.log('skipped: the exported booking tasks are not beside the project (../shared/data)');

describe.skipIf(!present)('the exported booking tasks', () => {
  it('are 100 good tasks on the lane fleet', async () => {
    const plan = await planProduce(real, { sandbox: 'docker', strict: true });
    expect(plan.lanes).toEqual({ fleet: 100 });
    expect(plan.report).toMatchObject({ read: 100, loaded: 100, refused: 0, duplicates: 0, faults: [] });
  });

  it('lose nothing on their way into the normal form', async () => {
    const raw = JSON.parse(readFileSync(real, 'utf8')) as Record<string, string>[];
    expect(await tasksOf(real)).toEqual(
      raw.map((task) => ({
        kind: 'fleet',
        task_key: task['key'],
        prompt: task['prompt'],
        env_key: task['env_id'],
        env_version: task['version'],
        data_key: task['data_id'],
        data_version: task['data_version'],
        region: null,
        image_type: null,
        env_variables: {},
        verifier_code: task['verifier_func'],
        verifier_id: null,
        verifier_runtime_version: null,
        modality: task['task_modality'],
        limits: {},
        metadata: {},
      })),
    );
  });
});
