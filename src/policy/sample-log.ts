import { appendFileSync } from 'node:fs';
import type { LogprobsMode } from '../contracts/index.ts';

/** What the policy sampled in one call: the truth an end-to-end test compares results with. */
export interface SampledCall {
  /** `X-Request-Id` of the request, else the answer's id. */
  readonly request_id: string;
  /** Id of the answer. */
  readonly id: string;
  readonly model: string;
  /** Which of the `n` choices. */
  readonly choice: number;
  /** Name of the script; null when none matched. */
  readonly script: string | null;
  /** Number of the turn in the script, from 0. */
  readonly turn: number;
  /** Branches taken up to and in this turn, as far as the sampled tokens tell: `/1/0`. */
  readonly branch: string;
  readonly prompt_token_ids: readonly number[];
  readonly token_ids: readonly number[];
  /** Float32 values, as reported. */
  readonly logprobs: readonly number[];
  readonly logprobs_mode: LogprobsMode;
  readonly finish_reason: string;
  readonly temperature: number;
  readonly seed: number | null;
}

/** Keeps the latest calls in memory and, given a path, appends each as a JSON line before it is answered. */
export class SampleLog {
  readonly #calls: SampledCall[] = [];
  readonly #capacity: number;
  readonly #path: string | undefined;

  constructor(capacity: number, path: string | undefined) {
    this.#capacity = capacity;
    this.#path = path;
    // A path that cannot be written is told at start, not at the first answer.
    if (path !== undefined) appendFileSync(path, '');
  }

  add(call: SampledCall): void {
    // Written at once: a reader that has the answer must find its line.
    if (this.#path !== undefined) appendFileSync(this.#path, `${JSON.stringify(call)}\n`);
    this.#calls.push(call);
    if (this.#calls.length > this.#capacity) this.#calls.shift();
  }

  all(): readonly SampledCall[] {
    return [...this.#calls];
  }
}
