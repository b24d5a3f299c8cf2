import { expect, it } from 'vitest';
import { loadScripts, startScriptedPolicy } from '../../src/policy/index.ts';
import { tasks, workshop } from '../local-fleet/shipped/workshop.ts';
import { play, type Played } from './play-workshop.ts';

const path = new URL('../../examples/bike-workshop.policy.json', import.meta.url).pathname;
const scripts = await loadScripts(path);

/** The seed docs and the demo name. */
const demoSeed = 10;

it('every task of the workshop has its script, and three difficulties', () => {
  for (const { prompt } of tasks)
    expect(scripts.filter(({ match }) => prompt.includes(match))).toHaveLength(1);
  expect(scripts).toHaveLength(tasks.length);
  expect(new Set(tasks.map(({ metadata }) => metadata['difficulty']))).toEqual(new Set([1, 2, 3]));
  for (const task of tasks) {
    expect(task.env_key).toBe(workshop!.env_key);
    expect(task.env_version).toBe(workshop!.version);
    expect(workshop!.data.get(task.data_key!)).toBe(task.data_version);
  }
});

it('with the seed of the demo every group of four has different rewards, in exact chains', async () => {
  await using policy = await startScriptedPolicy({ scripts, seed: demoSeed });
  const all: Played[] = [];
  for (const task of tasks) {
    const group = await Promise.all([0, 1, 2, 3].map(() => play(policy, task)));
    const rewards = group.map(({ reward }) => reward);
    expect(new Set(rewards), task.task_key).toEqual(new Set([0, 1]));
    expect(group.every(({ exact }) => exact)).toBe(true);
    all.push(...group);
  }
  const errors = all.flatMap((played) => played.errors);
  // What a policy does wrong and mends, and calls that come in pairs.
  expect(errors.some((error) => error.startsWith('Invalid arguments'))).toBe(true);
  expect(all.some(({ errors: own, reward }) => own.length > 0 && reward === 1)).toBe(true);
  expect(Math.max(...all.map(({ most }) => most))).toBeGreaterThan(1);
  expect(Math.max(...all.map(({ turns }) => turns))).toBeGreaterThan(5);
  expect(all.some(({ submitted }) => submitted)).toBe(true);
}, 240_000);

it('no task of the workshop is solved by doing nothing', async () => {
  await using policy = await startScriptedPolicy({ scripts: [] });
  const rewards = await Promise.all(tasks.map(async (task) => (await play(policy, task)).reward));
  expect(rewards).toEqual(tasks.map(() => 0));
});
