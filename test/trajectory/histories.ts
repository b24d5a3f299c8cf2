import fc from 'fast-check';
import type { CallFate, CallRecord } from '../../src/contracts/index.ts';
import { call, soundLogprobs } from './call-records.ts';

const token = fc.integer({ min: 0, max: 5 });
const tokens = fc.array(token, { maxLength: 4 });
const sampledTokens = fc.array(token, { minLength: 1, maxLength: 4 });

/** Faults of one call: each makes its answer untrainable. */
const faults: Record<string, (record: CallRecord) => CallRecord> = {
  'no ids': (record) => ({ ...record, token_ids: null }),
  'empty ids': (record) => ({ ...record, token_ids: new Int32Array(0) }),
  'no prompt ids': (record) => ({ ...record, prompt_token_ids: null }),
  'no logprobs': (record) => ({ ...record, logprobs: null }),
  'short logprobs': (record) => ({ ...record, logprobs: soundLogprobs(record.token_ids!.length - 1) }),
  'long logprobs': (record) => ({ ...record, logprobs: soundLogprobs(record.token_ids!.length + 2) }),
  NaN: (record) => ({ ...record, logprobs: record.logprobs!.map(() => NaN) }),
  positive: (record) => ({ ...record, logprobs: record.logprobs!.map(() => 0.5) }),
  sentinel: (record) => ({ ...record, logprobs: record.logprobs!.map(() => -9999) }),
  'no usage': (record) => ({ ...record, usage: null }),
  'other usage': (record) => ({
    ...record,
    usage: { ...record.usage!, completion_tokens: record.usage!.completion_tokens + 1 },
  }),
  aborted: (record) => ({ ...record, finish_reason: 'abort' }),
  marked: (record) => ({ ...record, reasons: ['undelivered'] }),
  greedy: (record) => ({ ...record, sampling: { ...record.sampling, temperature: 0 } }),
};

const fate = fc.oneof(
  { arbitrary: fc.constant<CallFate>('delivered'), weight: 6 },
  { arbitrary: fc.constantFrom<CallFate>('undelivered', 'discarded', 'aborted', 'failed'), weight: 1 },
);

const step = fc.record({
  agent: fc.constantFrom('main', 'sub'),
  role: fc.constantFrom<CallRecord['role']>('main', 'auxiliary'),
  fate,
  fault: fc.option(fc.constantFrom(...Object.keys(faults)), { freq: 5 }),
  /** Which earlier call the prompt extends; -1: none. Small numbers mean recent ones. */
  extends: fc.integer({ min: -1, max: 4 }),
  rewritten: fc.boolean(),
  delta: tokens,
  completion: sampledTokens,
});

export interface History {
  readonly calls: CallRecord[];
  /** Indices of calls whose answer is not sound. */
  readonly faulty: ReadonlySet<number>;
}

const historiesWith = (options: { readonly faults: boolean }): fc.Arbitrary<History> =>
  fc.array(step, { minLength: 1, maxLength: 14 }).map((steps) => {
    const sound: CallRecord[] = [];
    const calls: CallRecord[] = [];
    const faulty = new Set<number>();
    steps.forEach((next, index) => {
      const parent = next.extends < 0 ? undefined : sound.at(-1 - next.extends);
      const prompt = parent
        ? [...parent.prompt_token_ids!, ...parent.token_ids!, ...next.delta]
        : [7, ...next.delta];
      if (next.rewritten && prompt.length > 2) prompt[1] = 6;
      const record = call(index, prompt, next.completion, {
        agent_id: next.agent,
        role: next.role,
        fate: next.fate,
      });
      sound.push(record);
      const fault = options.faults ? next.fault : null;
      if (fault !== null) faulty.add(index);
      calls.push(fault === null ? record : faults[fault]!(record));
    });
    return { calls, faulty };
  });

/** Histories in which agents append, branch off, rewrite, retry and get bad answers, over few enough tokens to collide. */
export const histories = historiesWith({ faults: true });

/** The same with good answers only. */
export const soundHistories = historiesWith({ faults: false });

/** One agent that only appends. */
export const appendOnly: fc.Arbitrary<CallRecord[]> = fc
  .array(fc.tuple(tokens, sampledTokens), { minLength: 1, maxLength: 12 })
  .map((steps) => {
    let history = [7];
    return steps.map(([delta, completion], index) => {
      const prompt = [...history, ...delta];
      history = [...prompt, ...completion];
      return call(index, prompt, completion);
    });
  });
