import { afterEach, beforeAll, afterAll, describe, expect, it } from 'vitest';
import type { FaultInput } from '../../../src/local-fleet/index.ts';
import { cancelled, messageTask, openFleetStage, type FleetStage, type RunOptions } from './stage.ts';
import { until } from '../../support/wait.ts';

interface Expected {
  readonly reward: number | null;
  readonly status?: string;
  readonly failure?: Readonly<Record<string, unknown>>;
  readonly metrics?: Readonly<Record<string, unknown>>;
}

type Case = [what: string, faults: readonly FaultInput[], expected: Expected, options?: RunOptions];

const execution: FaultInput = { kind: 'execution_failure' };
const raised: FaultInput = { kind: 'execution_failure', type: 'KeyError', message: "'id'" };

/** Every fault that is known of the real service, and what an episode that meets it must come to. */
const cases: readonly Case[] = [
  ['a creation that fails twice in a transient way', [{ kind: 'create_transient', times: 2 }], { reward: 1 }],
  ['a creation that is answered with 503', [{ kind: 'create_transient', as: 'unavailable' }], { reward: 1 }],
  [
    'a creation that never works',
    [{ kind: 'create_transient', times: 'always' }],
    { reward: null, failure: { class: 'infra', phase: 'boot', retryable: true } },
  ],
  ['a creation whose connection is cut after it was made', [{ kind: 'create_lost' }], { reward: 1 }],
  ['a creation that a gateway gave up on', [{ kind: 'create_lost', as: 'gateway_timeout' }], { reward: 1 }],
  ['a burst limit', [{ kind: 'create_burst', times: 3 }], { reward: 1 }],
  ['an instance limit in words', [{ kind: 'create_limit', times: 3 }], { reward: 1 }],
  [
    'an instance limit with numbers',
    [{ kind: 'create_limit', shape: 'error_type', times: 3 }],
    { reward: 1 },
  ],
  ['502 from everything after the spawn', [{ kind: 'bad_gateway', times: 3 }], { reward: 1 }],
  [
    'one MCP endpoint that is not there',
    [{ kind: 'endpoint_missing', endpoint: 'mcp', times: 'always' }],
    { reward: 1, metrics: { mcp_endpoint_missing: true } },
  ],
  [
    'the other MCP endpoint not there',
    [{ kind: 'endpoint_missing', endpoint: 'aggregator', times: 'always' }],
    { reward: 1, metrics: { mcp_endpoint_missing: true } },
  ],
  ['tools that come late', [{ kind: 'tools_late', times: 3 }], { reward: 1 }],
  [
    'tools that never come',
    [{ kind: 'tools_late', times: 'always' }],
    { reward: null, failure: { class: 'infra', code: 'no_tools' } },
    { limits: { boot_seconds: 2 } },
  ],
  ['slow tools', [{ kind: 'tool_slow', ms: 300, times: 'always' }], { reward: 1 }],
  [
    'a call that hangs',
    [{ kind: 'tool_hang', tool: 'get_customer' }],
    { reward: 1, metrics: { tool_errors: 1 } },
    { limits: { tool_seconds: 1 } },
  ],
  ['a dropped session', [{ kind: 'session_lost', tool: 'send_message' }], { reward: 1 }],
  [
    'a judge that fails once',
    [{ kind: 'judge_error', score: 0 }],
    { reward: 1, metrics: { verifier_attempts: 2 } },
  ],
  [
    'a judge that always fails',
    [{ kind: 'judge_error', score: 1, times: 'always' }],
    { reward: null, failure: { class: 'infra', phase: 'grade', retryable: true } },
  ],
  [
    'an execution that fails twice, then is good',
    [{ ...execution, times: 2 }],
    { reward: 1, metrics: { verifier_attempts: 3 } },
  ],
  [
    'an execution that always fails on the service',
    [{ ...execution, times: 'always' }],
    { reward: null, failure: { class: 'infra', phase: 'grade', retryable: true } },
  ],
  [
    "an execution that always raises in the verifier's code",
    [{ ...raised, times: 'always' }],
    { reward: null, failure: { class: 'task', phase: 'grade', retryable: false } },
  ],
  ['an execute endpoint that fails once', [{ kind: 'execute_error', status: 503 }], { reward: 1 }],
  [
    'success without a result',
    [{ kind: 'verifier_result', result: null }],
    { reward: 1, metrics: { null_result: true } },
  ],
  ['a result that is an object', [{ kind: 'verifier_result', result: { score: 0.25 } }], { reward: 0.25 }],
  [
    'a score out of range',
    [{ kind: 'verifier_result', result: 7 }],
    { reward: null, failure: { class: 'task', code: 'reward_out_of_range' } },
  ],
  [
    'a score that is not a number',
    [{ kind: 'verifier_result', result: Number.NaN }],
    { reward: null, failure: { class: 'task' } },
  ],
  [
    'a result that says nothing',
    [{ kind: 'verifier_result', result: { passed: 'yes' } }],
    { reward: null, failure: { class: 'task' } },
  ],
  [
    'an instance that is gone before a call',
    [{ kind: 'instance_gone', after_calls: 1 }],
    { reward: null, failure: { class: 'infra', code: 'environment_gone', retryable: true } },
  ],
  ['an instance that ended by itself before its deletion', [{ kind: 'delete_missing' }], { reward: 1 }],
  ['a deletion that fails twice', [{ kind: 'delete_error', times: 2 }], { reward: 1 }],
  [
    'a key that is refused',
    [{ kind: 'wrong_key', times: 'always' }],
    { reward: null, failure: { class: 'infra', retryable: false } },
  ],
];

describe('a Fleet episode that meets', { timeout: 60_000 }, () => {
  let stage: FleetStage;
  beforeAll(async () => {
    stage = await openFleetStage();
  });
  afterAll(async () => {
    await stage?.[Symbol.asyncDispose]();
  });
  afterEach(() => stage.fleet.faults.clear());

  it('no fault is completed, exact, with the reward of its verifier', async () => {
    const { summary, exact } = await stage.run();
    expect(summary).toMatchObject({
      kind: 'fleet',
      status: 'completed',
      stop_reason: 'agent_done',
      reward: 1,
      rewards: { verifier: 1 },
      failure: null,
      metrics: { turns: 3, tool_calls: 2, tool_errors: 0, verifier_attempts: 1 },
      grades: { exact: 1, forked: 0, untrainable: 0 },
      sandbox: { provider: 'fleet' },
    });
    expect(exact).toBe(true);
    expect(stage.fleet.instances()).toEqual([]);
  });

  it.each<Case>(cases)('%s', async (_what, faults, expected, options) => {
    for (const fault of faults) stage.fleet.faults.add(fault);
    const { summary, exact } = await stage.run(options);
    expect(summary.reward, JSON.stringify(summary.failure)).toBe(expected.reward);
    if (expected.reward === null) {
      expect(summary).toMatchObject({ status: 'failed', failure: expected.failure ?? {} });
      expect(summary.failure?.message).not.toBe('');
      expect(summary.failure?.message).not.toContain('the-fleet-key');
    } else {
      expect(summary).toMatchObject({ status: 'completed', failure: null });
      expect(exact).toBe(true);
    }
    if (expected.metrics !== undefined) expect(summary.metrics).toMatchObject(expected.metrics);
    stage.fleet.faults.clear();
    // What a lost creation made is swept, and a deletion that failed is tried again.
    await until(() => stage.fleet.instances().length === 0, 'no instance lives');
  });

  it('a call cut after it ran: what it changed is not done twice unknown to the policy', async () => {
    stage.fleet.faults.add({ kind: 'call_cut', ran: true, tool: 'send_message' });
    const { summary } = await stage.run();
    // The message was sent once: told as an error, the policy of this test goes on.
    expect(summary).toMatchObject({ reward: 1, metrics: { tool_errors: 1 } });
  });

  it.each([
    ['an unknown environment', { env_key: 'no-such-place' }, 'environment_unknown'],
    ['an unknown version', { env_version: 'v9.9.9' }, 'version_unknown'],
    [
      'a verifier with a syntax error',
      { verifier_code: 'def verify(env):\n    return (' },
      'verifier_broken',
    ],
    ['an unknown verifier id', { verifier_code: null, verifier_id: 'nobody' }, 'verifier_unknown'],
  ])('%s has failed for good, in the words of the service', async (_what, over, code) => {
    const { summary } = await stage.run({ task: messageTask(over) });
    expect(summary).toMatchObject({
      status: 'failed',
      stop_reason: 'task_error',
      reward: null,
      failure: { class: 'task', code, retryable: false },
    });
    expect(stage.fleet.instances()).toEqual([]);
  });

  it('a wrong key has failed for good', async () => {
    const { summary } = await stage.run({ apiKey: 'another-key' });
    expect(summary.failure).toMatchObject({ class: 'infra', retryable: false });
    expect(JSON.stringify(summary)).not.toContain('another-key');
  });

  it('a cancellation in mid-call leaves no instance behind', async () => {
    stage.fleet.faults.add({ kind: 'tool_hang', tool: 'send_message' });
    const controller = new AbortController();
    const running = stage.run({ signal: controller.signal });
    running.catch(() => {});
    await until(() => stage.fleet.instances().some(({ calls }) => calls >= 2), 'the call hangs');
    const cause = cancelled();
    controller.abort(cause);
    await expect(running).rejects.toBe(cause);
    expect(stage.fleet.instances()).toEqual([]);
  });

  it('the end of its time is graded as it stands', async () => {
    stage.fleet.faults.add({ kind: 'tool_hang', tool: 'send_message', times: 'always' });
    const { summary } = await stage.run({ limits: { agent_seconds: 2 } });
    expect(summary).toMatchObject({ status: 'truncated', stop_reason: 'timeout', reward: 0 });
  });
});
