import { Sandbox as E2bApi } from 'e2b';
import type { Logger } from '../../observe/index.ts';
import { infraFailure } from '../sandbox-failure.ts';
import { sdkOptions, type E2bConnection } from './connection.ts';
import { isNotFound, longestLife } from './e2b-failure.ts';

const callMs = 30_000;

/** Milliseconds that E2B keeps a sandbox beyond our own time for it, in which a reaper can find it. */
export const graceMs = 60_000;

/** The longest life any plan gives (facts: E2B 2.8). */
const longestPlanMs = 24 * 3_600_000;

/** How long sandboxes may live at most, as the plan's own refusals say. */
export class PlanLifetime {
  #longestMs = longestPlanMs;
  readonly #log: Logger;

  constructor(log: Logger) {
    this.#log = log;
  }

  get longestMs(): number {
    return this.#longestMs;
  }

  /** Whether a refusal says that less is the most there is; it is kept to from then on. */
  learn(error: unknown): boolean {
    const found = longestLife(error);
    if (found === null || found >= this.#longestMs) return false;
    this.#longestMs = found;
    this.#log.warn(
      { hours: found / 3_600_000 },
      'this E2B plan gives a sandbox less time than episodes may take: those that need more end as infra failures',
    );
    return true;
  }
}

/** The time that one sandbox has. */
export class Lifetime {
  readonly #parts: { readonly connection: E2bConnection; readonly plan: PlanLifetime; readonly id: string };
  readonly #startedAt = Date.now();
  #endsAt: number;

  constructor(
    parts: { readonly connection: E2bConnection; readonly plan: PlanLifetime; readonly id: string },
    lifeMs: number,
  ) {
    this.#parts = parts;
    this.#endsAt = this.#startedAt + lifeMs;
  }

  async extend(ms: number): Promise<void> {
    await this.#until(this.#endsAt + ms);
  }

  /** Begins anew, with this time. */
  async renew(ms: number): Promise<void> {
    await this.#until(Date.now() + ms + graceMs);
  }

  /** Rejects (infra, `e2b_lifetime`) when the plan does not give so much; then it has all that the plan gives. */
  async #until(wanted: number): Promise<void> {
    const { connection, plan, id } = this.#parts;
    for (;;) {
      const end = Math.min(wanted, this.#startedAt + plan.longestMs);
      try {
        const options = { ...sdkOptions(connection), requestTimeoutMs: callMs };
        await E2bApi.setTimeout(id, Math.max(1_000, end - Date.now()), options);
      } catch (error) {
        if (plan.learn(error)) continue;
        const gone = isNotFound(error);
        throw infraFailure(
          gone ? 'sandbox_gone' : 'e2b_timeout_refused',
          gone ? 'the sandbox is gone' : 'E2B does not give the sandbox more time',
          { cause: error },
        );
      }
      this.#endsAt = end;
      if (end < wanted) {
        throw infraFailure(
          'e2b_lifetime',
          `a sandbox of this E2B plan lives ${plan.longestMs / 3_600_000} h at most: it cannot be given more time`,
        );
      }
      return;
    }
  }
}
