import { readFile } from 'node:fs/promises';
import { expect, it } from 'vitest';
import { normaliseTask } from '../../producer/index.ts';
import { loadScripts, startScriptedPolicy } from '../../src/policy/index.ts';
import { play } from './play-workshop.ts';

interface Script {
  readonly match: string;
}

async function example<T>(name: string): Promise<T> {
  return JSON.parse(await readFile(new URL(`../../examples/${name}`, import.meta.url), 'utf8')) as T;
}

const tasksOf = async (name: string): Promise<object[]> => (await example<{ tasks: object[] }>(name)).tasks;
const scriptsOf = async (name: string): Promise<Script[]> =>
  (await example<{ scripts: Script[] }>(name)).scripts;

const demo = await tasksOf('demo.json');
const fleet = demo.slice(4);

it('the demo has the four coding tasks and four of the workshop, word for word', async () => {
  expect(demo.slice(0, 4)).toEqual(await tasksOf('coding.json'));
  expect(fleet).toHaveLength(4);
  const workshop = await tasksOf('bike-workshop.json');
  for (const task of fleet) expect(workshop).toContainEqual(task);
  const kinds = demo.map((task) => {
    const read = normaliseTask(task);
    return 'task' in read ? read.task.kind : read;
  });
  expect(kinds).toEqual([...Array<string>(4).fill('claude_code'), ...Array<string>(4).fill('fleet')]);
});

it("the demo's scripts are those of its tasks, word for word", async () => {
  const prompts = fleet.map((task) => String((task as { prompt: unknown }).prompt));
  const workshop = await scriptsOf('bike-workshop.policy.json');
  expect(await scriptsOf('demo.policy.json')).toEqual([
    ...(await scriptsOf('coding.policy.json')),
    ...workshop.filter(({ match }) => prompts.some((prompt) => prompt.includes(match))),
  ]);
});

it("with the demo's scripts and seed every group of its fleet tasks has different rewards", async () => {
  const scripts = await loadScripts(new URL('../../examples/demo.policy.json', import.meta.url).pathname);
  await using policy = await startScriptedPolicy({ scripts, seed: 10 });
  for (const given of fleet) {
    const read = normaliseTask(given);
    if (!('task' in read) || read.task.kind !== 'fleet') throw new Error('no fleet task');
    const task = read.task;
    const group = await Promise.all([0, 1, 2, 3].map(() => play(policy, task)));
    expect(new Set(group.map(({ reward }) => reward)), task.task_key).toEqual(new Set([0, 1]));
  }
}, 120_000);
