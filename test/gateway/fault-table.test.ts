import { describe, expect, test } from 'vitest';
import type { CertificateNote, UntrainableReason } from '../../src/contracts/index.ts';
import type { FaultInput } from '../../src/policy/index.ts';
import { until } from '../support/wait.ts';
import { CliAgent } from './support/cli-agent.ts';
import { MovingState } from './support/moving-state.ts';
import { openGateway } from './support/open-gateway.ts';
import { endOf, policyOf, told } from './trajectories/scripted.ts';

interface Mode {
  readonly name: string;
  readonly engine: 'vllm' | 'sglang';
  readonly streaming: boolean;
  /** Whether the agent has its answers streamed. */
  readonly stream: boolean;
}

const modes: readonly Mode[] = [
  { name: 'vLLM', engine: 'vllm', streaming: false, stream: true },
  { name: 'vLLM, streamed, to an agent that streams', engine: 'vllm', streaming: true, stream: true },
  { name: 'vLLM, streamed, to an agent that does not', engine: 'vllm', streaming: true, stream: false },
  { name: 'SGLang', engine: 'sglang', streaming: false, stream: true },
];

const work = [
  {
    repeat: 9,
    turns: [{ text: ['I look.', 'Let me see.'], tool_calls: [{ name: 'Bash', arguments: '{"a" : 1}' }] }],
  },
];

/** The second of an episode's three calls goes wrong in this way. */
const rows: readonly {
  readonly name: string;
  readonly fault: FaultInput;
  /** Reasons of the whole chain. Default: none. */
  readonly reasons?: readonly UntrainableReason[];
  /** The policy gives no whole answer: it is asked again, unless the agent has seen a part of it. */
  readonly cut?: true;
}[] = [
  { name: 'answers 429', fault: { kind: 'status', status: 429, retry_after: 0.01 } },
  { name: 'answers 500', fault: { kind: 'status', status: 500 } },
  { name: 'answers 503 twice', fault: { kind: 'status', status: 503, times: 2 } },
  { name: 'dies in mid-answer', fault: { kind: 'die' }, cut: true },
  { name: 'fails in mid-answer, and says [DONE]', fault: { kind: 'stream_error' }, cut: true },
  { name: 'aborts the call', fault: { kind: 'abort' }, cut: true },
  { name: 'gives a NaN logprob', fault: { kind: 'logprob', value: 'nan' }, reasons: ['bad_logprob'] },
  {
    name: 'gives a null logprob',
    fault: { kind: 'logprob', value: 'null', position: 2 },
    reasons: ['bad_logprob'],
  },
  {
    name: 'gives a logprob of -9999',
    fault: { kind: 'logprob', value: 'default', position: -1 },
    reasons: ['bad_logprob'],
  },
  {
    name: 'gives a positive logprob',
    fault: { kind: 'logprob', value: 'positive' },
    reasons: ['bad_logprob'],
  },
  {
    name: 'leaves one logprob out',
    fault: { kind: 'logprob', value: 'missing', position: 1 },
    reasons: ['length_mismatch'],
  },
  { name: 'gives no logprobs', fault: { kind: 'no_logprobs' }, reasons: ['bad_logprob'] },
  {
    name: 'gives one id too few',
    fault: { kind: 'short_ids' },
    reasons: ['length_mismatch', 'usage_mismatch'],
  },
  { name: 'counts one token too many', fault: { kind: 'usage' }, reasons: ['usage_mismatch'] },
  {
    name: 'counts the prompt wrongly',
    fault: { kind: 'usage', field: 'prompt_tokens', by: -2 },
    reasons: ['usage_mismatch'],
  },
];

describe.each(modes)('an episode before a policy ($name)', ({ engine, streaming, stream }) => {
  const policyOptions = { engine, streaming, logprobsMode: 'processed' as const };

  test.each(rows)('that $name', async ({ fault, reasons = [], cut }) => {
    await using policy = await policyOf(work, { engine });
    await using opened = await openGateway(policy.url, { policy: policyOptions });
    const agent = new CliAgent(opened.session, undefined, { stream }).tell('Task');
    await agent.turn();
    policy.fault(fault);
    const broken = cut === true && streaming && stream;
    if (broken) {
      // The agent has a part of the answer: another one behind it would be neither.
      await expect(agent.turn()).rejects.toThrow('no message_stop');
      expect(opened.session.stats().failure).toMatchObject({ class: 'infra' });
    } else {
      for (let turn = 1; turn < 3; turn++) expect((await agent.turn()).status).toBe(200);
      expect(opened.session.stats().failure).toBeNull();
    }
    const { records, sequences, usage } = await endOf(opened.session, policy);
    const delivered = records.filter(({ fate }) => fate === 'delivered').map(({ index }) => index);
    const grade = reasons.length > 0 ? 'untrainable' : 'exact';
    expect(told(sequences)).toEqual([`main main: ${delivered.join(' ')}, ${grade}`]);
    expect(delivered).toHaveLength(broken ? 1 : 3);
    expect(sequences[0]!.certificate.reasons).toEqual(reasons);
    const lost = records.filter(({ fate }) => fate !== 'delivered');
    for (const { fate, reasons: said } of lost)
      expect([fate, said.includes('aborted')]).toEqual(['aborted', true]);
    // Of a cut answer the part that came is counted: a whole answer that breaks has none, an aborted one has half.
    expect(usage.discarded_tokens > 0).toBe(cut === true && (streaming || fault.kind === 'abort'));
  });

  test.each([
    ['no ids', { kind: 'no_ids' }, 'ids_missing'],
    ['no prompt ids', { kind: 'no_prompt_ids' }, 'prompt_ids_missing'],
  ] as const)(
    'that gives %s: what it said then is untrainable, and only that',
    async (_name, fault, reason) => {
      await using policy = await policyOf(work, { engine });
      await using opened = await openGateway(policy.url, { policy: policyOptions });
      const agent = new CliAgent(opened.session, undefined, { stream }).tell('Task');
      await agent.turn();
      policy.fault(fault);
      await agent.turn();
      await agent.turn();
      const { sequences } = await endOf(opened.session, policy);
      const spoilt = sequences.filter(({ turns }) => turns.some(({ call }) => call === 1));
      expect(spoilt).toHaveLength(1);
      expect(spoilt[0]!.certificate).toMatchObject({ grade: 'untrainable' });
      expect(spoilt[0]!.certificate.reasons).toContain(reason);
      for (const other of sequences.filter((each) => each !== spoilt[0])) {
        expect(other.certificate).toMatchObject({ reasons: [], grade: 'forked' });
      }
    },
  );

  test.each([
    ['says nothing', { kind: 'hang' }],
    ['says nothing behind its headers', { kind: 'hang', headers: true }],
  ] as const)(
    'that %s until the turn’s deadline: infra, and what came before is sound',
    async (_name, fault) => {
      await using policy = await policyOf(work, { engine });
      await using opened = await openGateway(policy.url, {
        policy: policyOptions,
        limits: { turn_seconds: 1 },
      });
      const agent = new CliAgent(opened.session, undefined, { stream }).tell('Task');
      await agent.turn();
      policy.fault({ ...fault, times: 9 });
      expect((await agent.turn()).status).toBe(503);
      expect(opened.session.stats().failure).toMatchObject({ class: 'infra', code: 'policy_turn_deadline' });
      const { records, sequences } = await endOf(opened.session, policy);
      expect(records.map(({ fate }) => fate)).toEqual(['delivered', 'failed']);
      expect(told(sequences)).toEqual(['main main: 0, exact']);
    },
  );

  test.each<[string, (state: MovingState) => void, readonly CertificateNote[], number]>([
    ['without a pause', (state) => state.setVersion(), ['mixed_version', 'version_uncertain'], 0],
    [
      'in a pause that lets calls end',
      (state) => {
        state.pause();
        state.setVersion();
        state.resume();
      },
      ['mixed_version'],
      0,
    ],
  ])('whose weights change in mid-call %s: trainable, and noted', async (_name, change, notes) => {
    await using policy = await policyOf(work, { engine, tokenMs: 10 });
    const policyState = new MovingState();
    await using opened = await openGateway(policy.url, { policy: policyOptions, gateway: { policyState } });
    const agent = new CliAgent(opened.session, undefined, { stream }).tell('Task');
    await agent.turn();
    const second = agent.turn();
    await until(() => policy.samples().length === 2, 'the policy samples');
    change(policyState);
    await second;
    const { records, sequences } = await endOf(opened.session, policy);
    expect(records.map(({ version_start: start, version_end: end }) => [start, end])).toEqual([
      [1, 1],
      [1, 2],
    ]);
    expect(sequences[0]!.certificate).toEqual({ grade: 'exact', reasons: [], notes });
    expect(sequences[0]!.turns.map(({ version_start: start, version_end: end }) => [start, end])).toEqual([
      [1, 1],
      [1, 2],
    ]);
  });

  test('whose weights change in a pause that ends calls: sampled anew with the new ones', async () => {
    await using policy = await policyOf(work, { engine, tokenMs: 60 });
    const policyState = new MovingState();
    await using opened = await openGateway(policy.url, { policy: policyOptions, gateway: { policyState } });
    const agent = new CliAgent(opened.session, undefined, { stream }).tell('Task');
    const first = agent.send().catch(() => null);
    await until(() => policy.samples().length === 1, 'the policy samples');
    policyState.pause(true);
    policyState.setVersion();
    const cut = opened.session.stats().calls;
    await until(
      () => opened.session.stats().hold_ms > 250 || opened.session.stats().failure !== null,
      'the pause is noticed',
    );
    policyState.resume();
    const heard = await first;
    const { records, sequences } = await endOf(opened.session, policy);
    expect(cut).toBe(1);
    // Only an agent that has a part of the answer already cannot be given another.
    if (heard === null) {
      expect([streaming, stream, sequences]).toEqual([true, true, []]);
      return;
    }
    expect(records.at(-1)).toMatchObject({ fate: 'delivered', version_start: 2, version_end: 2 });
    expect(sequences[0]!.certificate).toEqual({ grade: 'exact', reasons: [], notes: [] });
  });
});
