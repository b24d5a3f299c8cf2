import { readFile } from 'node:fs/promises';
import { expect, it } from 'vitest';
import { taskSchema, type ClaudeCodeTask } from '../../src/contracts/index.ts';
import { loadScripts, startScriptedPolicy } from '../../src/policy/index.ts';
import { play } from './episode.ts';

const path = (name: string): string => new URL(`../../examples/${name}`, import.meta.url).pathname;

const { tasks: given } = JSON.parse(await readFile(path('coding.json'), 'utf8')) as { tasks: unknown[] };
const tasks = given.map((task) => taskSchema.parse(task)) as ClaudeCodeTask[];
const scripts = await loadScripts(path('coding.policy.json'));

/** The seed docs and the demo name. */
const demoSeed = 10;

it('every example task has its script', () => {
  expect(tasks).toHaveLength(4);
  for (const { prompt } of tasks)
    expect(scripts.filter(({ match }) => prompt.includes(match))).toHaveLength(1);
});

it('with the seed of the demo every group of four has different rewards, in exact chains', async () => {
  await using policy = await startScriptedPolicy({ scripts, seed: demoSeed });
  const used = new Set<string>();
  for (const task of tasks) {
    const group = await Promise.all([0, 1, 2, 3].map(() => play(policy, task)));
    const rewards = new Set(group.map(({ reward }) => reward));
    expect(rewards.size, task.task_key).toBeGreaterThan(1);
    expect(rewards, task.task_key).toContain(1);
    expect(group.every(({ exact }) => exact)).toBe(true);
    expect(Math.max(...group.map(({ turns }) => turns))).toBeGreaterThan(2);
    for (const name of group.flatMap(({ called }) => called)) used.add(name);
  }
  expect([...used].sort()).toEqual(['Bash', 'Edit', 'Glob', 'Grep', 'Read', 'Write']);
}, 240_000);

it('no example is solved by doing nothing', async () => {
  await using policy = await startScriptedPolicy({ scripts: [] });
  for (const task of tasks) expect((await play(policy, task)).reward, task.task_key).toBeLessThan(0.5);
});
