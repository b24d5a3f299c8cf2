import { fileURLToPath } from 'node:url';
import { expect, it } from 'vitest';
import { readTasks } from '../../producer/index.ts';
import { loadScripts } from '../../src/policy/index.ts';

const folder = fileURLToPath(new URL('../../examples/harbor', import.meta.url));

it('the Harbor examples are tasks of which nothing is left aside, and all that can be built have a script', async () => {
  const reading = readTasks(folder, { strict: true });
  const prompts = new Map<string, string>();
  for await (const { task_key, prompt } of reading) prompts.set(task_key, prompt);
  expect([...prompts.keys()]).toEqual([
    'invert-picture',
    'rollpool/missing-library',
    'rollpool/slugs',
    'rollpool/sum-orders',
  ]);
  expect(reading.report.warnings).toEqual([]);
  prompts.delete('rollpool/missing-library');
  const scripts = await loadScripts(`${folder}/policy.json`);
  for (const prompt of prompts.values()) {
    expect(scripts.filter(({ match }) => prompt.includes(match))).toHaveLength(1);
  }
});
