import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import type { Result } from '../../src/contracts/index.ts';
import type { SampledCall } from '../../src/policy/index.ts';
import { haveDocker } from '../sandbox/docker-daemon.ts';
import { openStage, places, placesOf, readResults } from './stage.ts';

const tasks = ['fix-median', 'rename-option', 'repair-totals', 'write-slugify'];

/** A sampled call as one text: what stood before it, what was sampled, and with which float32 logprobs. */
function callText(prompt: readonly number[], ids: readonly number[], logprobs: readonly number[]): string {
  return JSON.stringify([prompt, ids, logprobs.map(Math.fround)]);
}

/** Every turn of every sequence; checks that the loss mask covers these and nothing else. */
function turnsOf(results: readonly Result[]): string[] {
  return results.flatMap(({ sequences }) =>
    sequences.flatMap(({ token_ids, loss_mask, logprobs, turns, prompt_len }) => {
      const mask = token_ids.map(() => 0);
      for (const { start, end } of turns) mask.fill(1, start, end);
      expect(loss_mask).toEqual(mask);
      expect(turns[0]?.start).toBe(prompt_len);
      expect(logprobs.filter((_logprob, at) => loss_mask[at] === 0).every((logprob) => logprob === 0)).toBe(
        true,
      );
      return turns.map(({ start, end }) =>
        callText(token_ids.slice(0, start), token_ids.slice(start, end), logprobs.slice(start, end)),
      );
    }),
  );
}

test.each([...(haveDocker ? ([['docker', 'plain']] as const) : []), ['local', 'hostile'] as const])(
  'rollpool run in %s gives exactly the tokens that the policy sampled, under the %s template',
  { timeout: 180_000 },
  async (sandbox, template) => {
    await using stage = await openStage();
    const samplesLog = join(stage.directory, 'samples.jsonl');
    const out = join(stage.directory, 'out');
    const scripts = ['--scripts', 'examples/coding.policy.json', '--template', template, '--seed', '10'];
    const policy = stage.start(['policy', ...scripts, '--samples-log', samplesLog, '--log-level', 'warn']);
    const [url] = await policy.says(/http:\S+/, 'the policy listens');

    const where = ['--sandbox', sandbox, '--policy-url', url, '--out', out];
    const ended = await stage.run(['run', 'examples/coding.json', '--samples', '2', ...where]);
    expect(ended.code, ended.stderr).toBe(0);
    const results = await readResults(out);
    expect(placesOf(results)).toEqual(places(tasks, 2));
    expect(new Set(results.map(({ episode_id }) => episode_id)).size).toBe(8);
    for (const task of tasks) expect(ended.stdout).toContain(task);

    // What no script matched are the probes of the workers.
    const sampled = (await readFile(samplesLog, 'utf8'))
      .split('\n')
      .filter((line) => line !== '')
      .map((line) => JSON.parse(line) as SampledCall)
      .filter(({ script }) => script !== null)
      .map(({ prompt_token_ids, token_ids, logprobs }) => callText(prompt_token_ids, token_ids, logprobs));
    expect(sampled.length).toBeGreaterThan(20);
    expect(turnsOf(results).sort()).toEqual(sampled.sort());

    const grades = results.flatMap(({ sequences }) => sequences.map(({ certificate }) => certificate.grade));
    expect(grades).not.toContain('untrainable');
    if (template === 'plain') expect(new Set(grades)).toEqual(new Set(['exact']));
    for (const { sequences, grades: counted, usage, attempt, status } of results) {
      const of = (grade: string): number =>
        sequences.filter((each) => each.certificate.grade === grade).length;
      expect(counted).toEqual({ exact: of('exact'), forked: of('forked'), untrainable: 0 });
      // One chain is exact; where the template rewrote history there are several, and each says so.
      expect(of('exact')).toBe(sequences.length === 1 ? 1 : 0);
      expect(usage.discarded_tokens).toBe(0);
      expect([attempt, status]).toEqual([1, 'completed']);
    }

    const rewardsOf = (task: string): Set<number | null> =>
      new Set(results.flatMap(({ task_key, reward }) => (task_key === task ? [reward] : [])));
    expect(tasks.filter((task) => rewardsOf(task).size > 1)).not.toEqual([]);
    expect(await stage.containers()).toEqual([]);

    policy.kill('SIGTERM');
    expect((await policy.ended).code).toBe(0);
  },
);
