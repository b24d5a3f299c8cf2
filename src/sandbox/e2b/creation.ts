import { Sandbox as E2bApi } from 'e2b';
import type { CreationGate, CreationTicket, Place, PlaceLimit } from '../../contracts/index.ts';
import type { Logger } from '../../observe/index.ts';
import { labelsOf } from '../leftovers.ts';
import { infraFailure, reasonOf } from '../sandbox-failure.ts';
import type { SandboxRequest } from '../sandbox.ts';
import { isVendor, sdkOptions, type E2bConnection } from './connection.ts';
import { createFailure, isBackpressure, isTransient, mayHaveMade } from './e2b-failure.ts';
import { graceMs, Lifetime, type PlanLifetime } from './lifetime.ts';
import { creationLabel, type LostCreations } from './lost-creations.ts';
import { networkOf } from './network.ts';
import { removeSandbox } from './remove-sandbox.ts';
import type { RetryAfterEar } from './retry-after.ts';

export interface CreationParts {
  readonly connection: E2bConnection;
  readonly gate: CreationGate;
  readonly limit: PlaceLimit;
  readonly plan: PlanLifetime;
  readonly lost: LostCreations;
  readonly ear: RetryAfterEar;
  readonly log: Logger;
  /** Milliseconds that a creation whose episode was cancelled may take to answer, so that what it made can be killed. */
  readonly abortGraceMs: number;
}

/** What a creation is asked for; see SandboxRequest. */
export type CreationRequest = Pick<
  SandboxRequest,
  'spec' | 'owner' | 'ttl_seconds' | 'signal' | 'boot_seconds' | 'wait_seconds'
>;

export interface CreatedSandbox {
  readonly api: E2bApi;
  readonly place: Place;
  readonly lifetime: Lifetime;
  /** Milliseconds that are left for its boot. */
  readonly bootLeftMs: number;
}

const defaultBootSeconds = 180;
const defaultWaitSeconds = 1_800;
const retryPauses = [1_000, 2_000, 4_000];

async function pause(ms: number, signal: AbortSignal): Promise<void> {
  await new Promise<void>((resolve, reject) => {
    const timer = setTimeout(done, ms);
    function done(): void {
      clearTimeout(timer);
      signal.removeEventListener('abort', done);
      if (signal.aborted) reject(signal.reason as Error);
      else resolve();
    }
    signal.addEventListener('abort', done, { once: true });
    if (signal.aborted) done();
  });
}

/**
 * The creation of one sandbox. No place is no failure: the gate and the limit, which all workers share, say when to ask
 * again, for as long as `wait_seconds`. A transient failure is tried again within `boot_seconds`. When it rejects, nothing
 * of it is left that could be found.
 */
export class Creation {
  readonly #request: CreationRequest;
  readonly #template: string;
  readonly #parts: CreationParts;
  readonly #reach: ReturnType<typeof networkOf>;
  #waitLeft: number;
  #bootLeft: number;
  #tries = 0;
  #refusal: unknown = null;

  constructor(request: CreationRequest, template: string, parts: CreationParts) {
    this.#request = request;
    this.#template = template;
    this.#parts = parts;
    this.#reach = networkOf(request.spec.network);
    this.#waitLeft = (request.wait_seconds ?? defaultWaitSeconds) * 1000;
    this.#bootLeft = (request.boot_seconds ?? defaultBootSeconds) * 1000;
  }

  async run(): Promise<CreatedSandbox> {
    const { signal } = this.#request;
    const { limit, gate } = this.#parts;
    const place = await this.#waited((bounded) => limit.take(bounded));
    try {
      for (;;) {
        const ticket = await this.#waited((bounded) => gate.enter(bounded));
        const started = performance.now();
        const outcome = await this.#post();
        const took = performance.now() - started;
        await this.#tell(ticket, outcome);
        if (isBackpressure(outcome)) {
          this.#waitLeft -= took;
          this.#refusal = outcome;
          continue;
        }
        this.#bootLeft -= took;
        if (!(outcome instanceof Error)) return { ...outcome, place, bootLeftMs: this.#bootLeft };
        if (this.#parts.plan.learn(outcome)) continue;
        await this.#afterFailure(outcome);
      }
    } catch (error) {
      await place.release();
      signal.throwIfAborted();
      throw error;
    }
  }

  /** Waits for something that is no time of the boot. */
  async #waited<T>(wait: (signal: AbortSignal) => Promise<T>): Promise<T> {
    const { signal } = this.#request;
    signal.throwIfAborted();
    if (this.#waitLeft <= 0) throw this.#noPlace();
    const started = performance.now();
    const late = AbortSignal.timeout(Math.ceil(Math.max(1, Math.min(this.#waitLeft, 2 ** 31 - 1))));
    try {
      return await wait(AbortSignal.any([signal, late]));
    } catch (error) {
      signal.throwIfAborted();
      if (!late.aborted) throw error;
      throw this.#noPlace();
    } finally {
      this.#waitLeft -= performance.now() - started;
    }
  }

  #noPlace(): Error {
    const seconds = this.#request.wait_seconds ?? defaultWaitSeconds;
    const why = this.#refusal === null ? 'other workers have them all' : reasonOf(this.#refusal);
    return infraFailure('sandbox_limit', `no free E2B sandbox within ${seconds} s: ${why}`, {
      phase: 'boot',
      cause: this.#refusal,
    });
  }

  /** One try; a failure is its outcome. It outlives an abort for a while: what it makes is killed then. */
  async #post(): Promise<{ api: E2bApi; lifetime: Lifetime } | Error> {
    const { owner, ttl_seconds, signal } = this.#request;
    const { connection, plan, lost, abortGraceMs } = this.#parts;
    const creation = `${owner.nonce}.${this.#tries}`;
    const now = Date.now();
    const lifeMs = Math.min(ttl_seconds * 1000 + graceMs, plan.longestMs);
    const given = new AbortController();
    let timer: NodeJS.Timeout | undefined;
    const onAbort = (): void => {
      timer = setTimeout(
        () => given.abort(new Error('no answer came after the episode was cancelled')),
        abortGraceMs,
      );
    };
    signal.addEventListener('abort', onAbort, { once: true });
    let api: E2bApi;
    try {
      api = await E2bApi.create(this.#template, {
        ...sdkOptions(connection),
        ...this.#reach,
        requestTimeoutMs: Math.max(1, Math.ceil(this.#bootLeft)),
        signal: given.signal,
        timeoutMs: lifeMs,
        lifecycle: { onTimeout: 'kill' },
        metadata: {
          ...labelsOf({ owner, expires_at: now + ttl_seconds * 1000 }),
          [creationLabel]: creation,
        },
      });
    } catch (error) {
      if (mayHaveMade(error)) await lost.sweep(creation);
      return error instanceof Error ? error : new Error(reasonOf(error));
    } finally {
      clearTimeout(timer);
      signal.removeEventListener('abort', onAbort);
    }
    const { sandboxId } = api;
    if (signal.aborted) {
      await removeSandbox(connection, sandboxId, abortGraceMs).catch((error: unknown) =>
        this.#parts.log.warn({ sandbox: sandboxId, why: reasonOf(error) }, 'left to the reaper'),
      );
      return signal.reason instanceof Error ? signal.reason : new Error('aborted');
    }
    return { api, lifetime: new Lifetime({ connection, plan, id: sandboxId }, lifeMs) };
  }

  /** The gate hears how it ended; that it cannot be told is nothing the episode should end with. */
  async #tell(ticket: CreationTicket, outcome: unknown): Promise<void> {
    try {
      if (!(outcome instanceof Error)) await ticket.passed();
      else if (isBackpressure(outcome)) await ticket.refused(this.#parts.ear.take());
      else await ticket.left();
    } catch (error) {
      this.#parts.log.warn({ why: reasonOf(error) }, 'could not tell the creation gate how a creation ended');
    }
  }

  /** Waits for the next try, or rejects. */
  async #afterFailure(error: Error): Promise<void> {
    const { signal, boot_seconds = defaultBootSeconds } = this.#request;
    signal.throwIfAborted();
    const wait = retryPauses[this.#tries++];
    if (!isTransient(error) || (wait === undefined && this.#bootLeft > 0)) {
      const hint = isVendor(this.#parts.connection) ? ': rollpool template build makes one' : '';
      throw createFailure(error, this.#template, hint);
    }
    if (wait === undefined || wait >= this.#bootLeft) {
      throw infraFailure('boot_timeout', `no E2B sandbox within ${boot_seconds} s: ${reasonOf(error)}`, {
        phase: 'boot',
        cause: error,
      });
    }
    await pause(wait, signal);
    this.#bootLeft -= wait;
  }
}
