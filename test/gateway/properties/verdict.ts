import type { CallRecord, Sequence } from '../../../src/contracts/index.ts';
import { callSeed } from '../../../src/gateway/calls/call-seed.ts';
import { decodeTokens, type SampledCall } from '../../../src/policy/index.ts';
import { buildSequences } from '../../../src/trajectory/index.ts';
import { lastMark, type Asked, type Played } from './play-episode.ts';
import type { Exchange } from './unruly-wire.ts';

/** What is known of an episode from outside the gateway. */
export interface Evidence extends Played {
  readonly seed: number;
  readonly episodeId: string;
  readonly template: 'plain' | 'hostile';
  readonly exchanges: readonly Exchange[];
  readonly log: readonly SampledCall[];
}

/** What the policy sampled for one recorded call, and what the wire made of it. */
interface Truth {
  readonly record: CallRecord;
  readonly sample: SampledCall;
  readonly exchange: Exchange;
  readonly asked: Asked;
}

const answered = (record: CallRecord): boolean => record.answer !== null;
const same = (a: ArrayLike<number>, b: ArrayLike<number>): boolean =>
  Array.from(a).join() === Array.from(b).join();
const starts = (list: readonly number[], ...parts: (readonly number[])[]): boolean =>
  `${list.join()},`.startsWith(`${parts.flat().join()},`);

/** Everything in an episode's records and sequences that the evidence speaks against. */
export function contradictions(records: readonly CallRecord[], evidence: Evidence): string[] {
  const verdict = new Verdict(records, evidence);
  return verdict.faults;
}

class Verdict {
  readonly faults: string[] = [];
  readonly #evidence: Evidence;
  readonly #truths = new Map<number, Truth>();
  readonly #sequences: readonly Sequence[];

  constructor(records: readonly CallRecord[], evidence: Evidence) {
    this.#evidence = evidence;
    const { sequences, usage } = buildSequences(records);
    this.#sequences = sequences;
    for (const record of records) this.#trace(record);
    for (const sequence of sequences) this.#sequence(sequence);

    const turns = sequences.flatMap((sequence) => sequence.turns.map(({ call }) => call));
    const delivered = records.filter(({ fate }) => fate === 'delivered').map(({ index }) => index);
    this.#claim(
      same(
        turns.sort((a, b) => a - b),
        delivered,
      ),
      'each delivered call stands in one sequence, no other in any',
    );
    const masked = sequences.reduce(
      (sum, { loss_mask: mask }) => sum + mask.reduce((each, bit) => each + bit, 0),
      0,
    );
    const sampled = records.reduce(
      (sum, { fate, token_ids: ids }) => sum + (fate === 'delivered' ? (ids?.length ?? 0) : 0),
      0,
    );
    this.#claim(masked === sampled, 'the masks are the tokens of the delivered calls');
    this.#claim(
      usage.completion_tokens === masked + usage.discarded_tokens,
      'usage is masks and discarded tokens',
    );
    const given = records.filter(({ fate }) => fate === 'delivered' || fate === 'discarded').length;
    this.#claim(evidence.heard <= given, 'what a client has heard counts as delivered');
    for (const agent of new Set(sequences.map(({ role, agent_id: id }) => `${role} ${id}`)))
      this.#agent(agent);
  }

  #claim(holds: boolean, what: string): void {
    if (!holds) this.faults.push(what);
  }

  /** Finds what the policy sampled for a call: by its seed, which no other call has. */
  #trace(record: CallRecord): void {
    const { seed, episodeId, exchanges, log } = this.#evidence;
    const own = callSeed(seed, episodeId, 1, record.index);
    const tries = exchanges.filter((each) => each.seed === own);
    const samples = log.filter((each) => each.seed === own);
    const call = `call ${record.index}`;
    if (!answered(record)) {
      const ids = [...(record.token_ids ?? [])];
      this.#claim(
        ids.length === 0 || samples.some(({ token_ids }) => starts([...token_ids, -1], ids)),
        `${call}: what came of it is a beginning of a sample`,
      );
      this.#claim(
        record.fate === 'failed' || record.fate === 'aborted',
        `${call}: without an answer it has failed`,
      );
      return;
    }
    const exchange = tries.at(-1);
    const sample = samples.find(({ request_id: id }) => id === exchange?.id);
    const mark = sample === undefined ? null : lastMark(decodeTokens(sample.prompt_token_ids));
    const asked = mark === null ? undefined : this.#evidence.asked[mark];
    if (exchange === undefined || sample === undefined || asked === undefined) {
      this.faults.push(`${call}: it has an answer that the policy never sampled`);
      return;
    }
    this.#claim(exchange.passed, `${call}: it has an answer that never came whole`);
    this.#truths.set(record.index, { record, sample, exchange, asked });
    if (exchange.changed === 'no') return;
    this.#claim(record.version_end! > record.version_start!, `${call}: it says that the weights changed`);
    const uncertain = exchange.changed === 'paused' || record.notes.includes('version_uncertain');
    this.#claim(uncertain, `${call}: its version is uncertain`);
  }

  #sequence({
    token_ids: ids,
    loss_mask: mask,
    logprobs,
    turns,
    certificate,
    role,
    agent_id,
  }: Sequence): void {
    const where = `the sequence of calls ${turns.map(({ call }) => call).join(' ')}`;
    const expected = new Uint8Array(ids.length);
    for (const { start, end } of turns) expected.fill(1, start, end);
    this.#claim(
      mask.length === ids.length && logprobs.length === ids.length,
      `${where}: arrays of equal length`,
    );
    this.#claim(same(mask, expected), `${where}: the mask is its turns`);
    this.#claim(
      logprobs.every((each, at) => mask[at] === 1 || each === 0),
      `${where}: logprobs stand under the mask`,
    );
    let tampered = false;
    for (const { call, start, end } of turns) {
      const truth = this.#truths.get(call);
      if (truth === undefined) continue;
      const { record, sample, exchange } = truth;
      const { fault } = exchange;
      const done = fault.kind === 'policy' && fault.tampers ? fault.fault.kind : null;
      // A prompt that was given as ids is known without the engine's word.
      const kind = done === 'no_prompt_ids' && record.prompt_token_ids !== null ? null : done;
      tampered ||= kind !== null;
      this.#claim(
        record.role === role && record.agent_id === agent_id,
        `${where}: its calls are one agent's`,
      );
      if (kind !== 'no_prompt_ids')
        this.#claim(
          same(ids.subarray(0, start), sample.prompt_token_ids),
          `${where}: the prompt of call ${call} is the engine's`,
        );
      const whole = kind !== 'short_ids' && kind !== 'no_ids';
      if (whole)
        this.#claim(
          same(ids.subarray(start, end), sample.token_ids),
          `${where}: the tokens of call ${call} are those sampled`,
        );
      if (kind === null)
        this.#claim(
          same(logprobs.subarray(start, end), sample.logprobs.map(Math.fround)),
          `${where}: the logprobs of call ${call} are those sampled`,
        );
    }
    this.#claim(
      (certificate.grade === 'untrainable') === tampered,
      `${where}: graded ${certificate.grade} (${certificate.reasons.join()}), and tampered with: ${tampered}`,
    );
  }

  /** What the grades of one agent's sequences say of its history. */
  #agent(agent: string): void {
    const sequences = this.#sequences.filter(({ role, agent_id: id }) => `${role} ${id}` === agent);
    const truths = sequences
      .flatMap(({ turns }) => turns.flatMap(({ call }) => this.#truths.get(call) ?? []))
      .sort((a, b) => a.record.index - b.record.index);
    const parents = truths.map(({ asked }) => asked.after);
    const grades = sequences.map(({ certificate }) => certificate.grade);
    if (new Set(parents).size < parents.length) {
      this.#claim(!grades.includes('exact'), `${agent}: its history was rewritten, and a sequence is exact`);
    }
    if (this.#evidence.template === 'hostile') return;
    const appended = truths.every(
      ({ asked }, at) => at === 0 || (asked.after === truths[at - 1]!.asked.mark && !asked.lossy),
    );
    const sound = truths.every(({ exchange: { fault } }) => fault.kind !== 'policy' || !fault.tampers);
    if (appended && sound) {
      this.#claim(
        grades.length === 1 && grades[0] === 'exact',
        `${agent}: it only appended, and has ${grades.join()}`,
      );
    }
    for (const { record, asked, sample } of truths) {
      if (asked.after === null || asked.lossy) continue;
      const before = [...this.#truths.values()].filter((each) => each.asked.mark === asked.after);
      this.#claim(
        before.some((each) =>
          starts(sample.prompt_token_ids, each.sample.prompt_token_ids, each.sample.token_ids),
        ),
        `call ${record.index}: its prompt goes on from what was sampled before`,
      );
    }
  }
}
