import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { startLocalFleet } from '../../src/local-fleet/index.ts';
import { startScriptedPolicy, type ScriptedPolicy } from '../../src/policy/index.ts';
import { smallScripts, smallTask } from '../e2e/small-tasks.ts';
import { openStage } from '../e2e/stage.ts';
import { haveDocker, testImage } from '../sandbox/docker-daemon.ts';
import { freshPrefix, testRedisUrl } from '../support/redis.ts';
import { invoke } from './invoke.ts';

let policy: ScriptedPolicy;
beforeAll(async () => {
  policy = await startScriptedPolicy({ scripts: smallScripts(), seed: 1 });
});
afterAll(async () => policy[Symbol.asyncDispose]());

const env = (): Record<string, string> => ({ REDIS_URL: testRedisUrl(), ROLLPOOL_PREFIX: freshPrefix() });

interface Finding {
  readonly what: string;
  readonly verdict: string;
  readonly says: string;
}

async function findings(
  flags: readonly string[],
  own: Readonly<Record<string, string>> = {},
): Promise<{ code: number; found: Map<string, Finding> }> {
  const { code, stdout } = await invoke(['doctor', '--json', ...flags], { ...env(), ...own });
  const all = (JSON.parse(stdout) as { findings: Finding[] }).findings;
  return { code, found: new Map(all.map((finding) => [finding.what, finding])) };
}

describe('rollpool doctor', () => {
  it('says what the policy returns, and which mode its logprobs are in', async () => {
    const { found } = await findings(['--policy-url', policy.url]);
    const finding = found.get(`policy ${policy.url}`);
    expect(finding).toMatchObject({ verdict: 'ok' });
    expect(finding?.says).toMatch(/token ids yes.*logprobs yes.*logprobs mode processed/);
  });

  it('names the flag that a policy with raw logprobs lacks', async () => {
    await using raw = await startScriptedPolicy({ scripts: smallScripts(), seed: 1, logprobsMode: 'raw' });
    const { found } = await findings(['--policy-url', raw.url]);
    expect(found.get(`policy ${raw.url}`)).toMatchObject({
      verdict: 'warning',
      says: expect.stringContaining('--logprobs-mode processed_logprobs') as string,
    });
  });

  it('warns of a Redis that keeps nothing, and fails for a policy nobody named', async () => {
    const { code, found } = await findings([]);
    expect(code).toBe(1);
    expect(found.get('redis persistence')).toMatchObject({ verdict: 'warning' });
    expect(found.get('redis memory')).toMatchObject({ verdict: 'ok' });
    expect(found.get('policy')).toMatchObject({ verdict: 'missing' });
  });

  it('says which Fleet service there is, and whether the service takes the key', async () => {
    const without = await findings([]);
    expect(without.found.get('fleet')).toMatchObject({
      verdict: 'ok',
      says: expect.stringMatching(
        /^no FLEET_API_KEY: run brings a local Fleet, whose verifiers run in Python 3\./,
      ) as string,
    });
    await using fleet = await startLocalFleet({ environments: [], apiKey: 'sesame' });
    const service = { FLEET_BASE_URL: fleet.url };
    const right = await findings([], { ...service, FLEET_API_KEY: 'sesame' });
    expect(right.found.get('fleet')).toMatchObject({ verdict: 'ok', says: `${fleet.url} takes the key` });
    const wrong = await findings([], { ...service, FLEET_API_KEY: 'another-key' });
    expect(wrong.code).toBe(1);
    expect(wrong.found.get('fleet')).toMatchObject({
      verdict: 'missing',
      says: expect.stringContaining('FLEET_API_KEY is not accepted') as string,
    });
    expect(JSON.stringify([...wrong.found])).not.toContain('another-key');
  });

  it.runIf(haveDocker)('looks whether the sandbox image is there', async () => {
    const there = await findings(['--image', testImage]);
    expect(there.found.get('sandbox image')).toMatchObject({ verdict: 'ok', says: testImage });
    const missing = await findings(['--image', 'no-such-image:1']);
    expect(missing.found.get('sandbox image')).toMatchObject({
      verdict: 'missing',
      says: expect.stringContaining('no-such-image:1 is not on this machine') as string,
    });
  });
});

describe('episodes of another run on the same lane', () => {
  it('are left to workers of their own', { timeout: 120_000 }, async () => {
    await using stage = await openStage({ ROLLPOOL_POLICY_URL: policy.url });
    const other = await stage.file('other.json', [smallTask('one')]);
    const tasks = await stage.file('tasks.json', [smallTask('two')]);
    const enqueued = await stage.run(['enqueue', other, '--sandbox', 'local', '--run-id', 'other']);
    expect(enqueued.code).toBe(0);
    const run = ['run', tasks, '--sandbox', 'local', '--processes', '1', '--out', `${stage.directory}/out`];
    expect((await stage.run(run)).code).toBe(0);
    expect(await stage.queue.runStatus('other')).toMatchObject({ episodes: { queued: 1, delivered: 0 } });
  });
});
