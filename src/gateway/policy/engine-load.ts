import type { Replica } from './replica.ts';

/** A figure is asked for again after this long, when somebody wants it. */
const freshMs = 2_000;
/** Older figures say nothing any more. */
const staleMs = 10_000;
/** A replica without such figures is asked again after this long. */
const absentMs = 60_000;
const askMs = 2_000;
/** Characters of a metrics page that are looked at: vLLM's has some 100,000. */
const pageLimit = 2 ** 20;

/** Gauges that count an engine's requests (facts: token capture 1.6 and 2); one line each for every engine behind the server. */
const gauge =
  /^(?:vllm:num_requests_(?:running|waiting)|sglang:num_(?:running|queue)_reqs)(?:\{[^\n]*\})? ([0-9.eE+-]+)/gm;

/** Requests an engine runs or has waiting, from its Prometheus page; null where the page does not say. */
export function parseEngineLoad(page: string): number | null {
  let requests: number | null = null;
  for (const [, figure] of page.slice(0, pageLimit).matchAll(gauge)) {
    const count = Number(figure);
    if (Number.isFinite(count) && count >= 0) requests = (requests ?? 0) + count;
  }
  return requests;
}

/**
 * How many requests an engine has from everybody, as its `/metrics` say: other workers' calls stand in no count of ours.
 * Reading it never waits for the engine: what was heard last is given, and asked for anew in the background.
 */
export class EngineLoad {
  readonly #replica: Pick<Replica, 'request'>;
  readonly #closing: AbortSignal;
  #requests: number | null = null;
  #heardAt = -Infinity;
  #askAt = -Infinity;
  #asking = false;

  constructor(replica: Pick<Replica, 'request'>, closing: AbortSignal) {
    this.#replica = replica;
    this.#closing = closing;
  }

  /** Requests as heard lately; null when not known. */
  get requests(): number | null {
    const now = performance.now();
    if (!this.#asking && now >= this.#askAt) void this.#ask();
    return now - this.#heardAt > staleMs ? null : this.#requests;
  }

  async #ask(): Promise<void> {
    this.#asking = true;
    let again = freshMs;
    try {
      const limited = AbortSignal.any([this.#closing, AbortSignal.timeout(askMs)]);
      const { status, text } = await this.#replica.request('GET', '/metrics', null, limited);
      this.#requests = status === 200 ? parseEngineLoad(text) : null;
      this.#heardAt = performance.now();
      if (this.#requests === null) again = absentMs;
    } catch {
      // Out of reach, which the calls find out by themselves.
    } finally {
      this.#asking = false;
      this.#askAt = performance.now() + again;
    }
  }
}
