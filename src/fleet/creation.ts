import type { CreationGate, CreationTicket } from '../contracts/index.ts';
import { createBody, deadlineAfter, FleetApiError, graceAfter, pause, type Instance } from './api/index.ts';
import type { EnvironmentRequest } from './environment.ts';
import { createFailure, infraFailure, reasonOf } from './fleet-failure.ts';
import { fleetRunId } from './instance-owner.ts';
import { removeInstance, type FleetParts } from './remove-instance.ts';

export interface CreatedInstance {
  readonly instance: Instance;
  /** Where its own servers answer. */
  readonly root: string;
  /** Its Fleet run id. */
  readonly run_id: string;
  /** Milliseconds it took, waiting for a free place not counted. */
  readonly create_ms: number;
  /** Milliseconds of waiting for a free place. */
  readonly wait_ms: number;
  /** Creations that were sent and not refused for want of a place. */
  readonly tries: number;
}

/**
 * The creation of one task's instance. No place is no failure: the gate, which all workers share, says when to ask
 * again, for as long as `wait_seconds`. A transient failure is tried again within `boot_seconds`, after what the try may
 * have made was removed. When it rejects, nothing of the attempt is left that could be found.
 */
export class Creation {
  readonly #request: EnvironmentRequest;
  readonly #gate: CreationGate;
  readonly #parts: FleetParts;
  #waitLeft: number;
  #bootLeft: number;
  #tries = 0;
  #runId: string;
  #refusal: FleetApiError | null = null;

  constructor(request: EnvironmentRequest, gate: CreationGate, parts: FleetParts) {
    this.#request = request;
    this.#gate = gate;
    this.#parts = parts;
    this.#runId = fleetRunId(request);
    this.#waitLeft = request.wait_seconds * 1000;
    this.#bootLeft = request.boot_seconds * 1000;
  }

  async run(): Promise<CreatedInstance> {
    const { signal } = this.#request;
    for (;;) {
      signal.throwIfAborted();
      const ticket = await this.#enter();
      if (signal.aborted) {
        await this.#tell(ticket, new Error('aborted'));
        throw signal.reason;
      }
      const started = performance.now();
      const outcome = await this.#post();
      const took = performance.now() - started;
      await this.#tell(ticket, outcome);
      if (outcome instanceof FleetApiError && outcome.isBackpressure) {
        this.#waitLeft -= took;
        this.#refusal = outcome;
        continue;
      }
      this.#tries++;
      this.#bootLeft -= took;
      if (outcome instanceof Error) await this.#afterFailure(outcome);
      else return this.#summary(await this.#running(outcome));
    }
  }

  /** Waits for a ticket; that is no time of the boot. */
  async #enter(): Promise<CreationTicket> {
    const { signal } = this.#request;
    const started = performance.now();
    using deadline = deadlineAfter(this.#waitLeft, signal);
    try {
      return await this.#gate.enter(deadline.signal);
    } catch (error) {
      signal.throwIfAborted();
      if (!deadline.expired) throw error;
      const why =
        this.#refusal === null ? 'the creations of other workers were refused' : reasonOf(this.#refusal);
      throw infraFailure(
        'instance_limit',
        `no free place for an environment within ${this.#request.wait_seconds} s: ${why}`,
        { phase: 'boot', cause: this.#refusal },
      );
    } finally {
      this.#waitLeft -= performance.now() - started;
    }
  }

  /**
   * One try; a failure is its outcome. It outlives an abort for a while, since what it makes can be deleted for sure only
   * when its answer is known.
   */
  async #post(): Promise<Instance | Error> {
    const { task, ttl_seconds, signal } = this.#request;
    const { client, timings } = this.#parts;
    using grace = graceAfter(timings.createGrace, signal);
    const seconds = this.#bootLeft / 1000;
    const body = createBody(task, {
      run_id: this.#runId,
      ttl_seconds,
      heartbeat_interval: timings.heartbeatIntervalSeconds,
      // A slow creation is to be told as such, before this side has given it up. Source: the vendor's SDK (30 s less).
      max_wait_seconds: Math.floor(seconds - Math.min(30, seconds / 10)),
    });
    try {
      return await client.createInstance(body, {
        region: task.region,
        timeout_ms: this.#bootLeft,
        signal: grace.signal,
      });
    } catch (error) {
      return error instanceof Error ? error : new Error(String(error));
    }
  }

  /** The gate hears how it ended; that it cannot be told is nothing the episode should end with. */
  async #tell(ticket: CreationTicket, outcome: Instance | Error): Promise<void> {
    try {
      if (!(outcome instanceof Error)) await ticket.passed();
      else if (outcome instanceof FleetApiError && outcome.isBackpressure) {
        await ticket.refused(outcome.retry_after_ms);
      } else await ticket.left();
    } catch (error) {
      this.#parts.log.warn({ why: reasonOf(error) }, 'could not tell the creation gate how a creation ended');
    }
  }

  /** Removes what the try may have made, then waits for the next one, or rejects. */
  async #afterFailure(error: Error): Promise<void> {
    const { signal, boot_seconds } = this.#request;
    const { lost, timings } = this.#parts;
    const started = performance.now();
    const ambiguous = mayHaveMade(error);
    // A placement that failed may leave its instance behind, too.
    const failedHalfway = error instanceof FleetApiError && error.transient && !error.unsent;
    if (ambiguous || failedHalfway) await lost.sweep(this.#runId);
    // The service may finish a try without an answer after it was swept.
    if (ambiguous) lost.sweepLater(this.#runId);
    this.#runId = fleetRunId(this.#request, this.#tries);
    signal.throwIfAborted();
    this.#bootLeft -= performance.now() - started;
    const mayRepeat = error instanceof FleetApiError && (error.transient || error.kind === 'conflict');
    const next = timings.createPauses[this.#tries - 1];
    if (!mayRepeat || (next === undefined && this.#bootLeft > 0)) {
      throw createFailure(error, this.#request.task.env_key);
    }
    const wait = Math.max((next ?? 0) * (0.75 + Math.random() / 4), error.retry_after_ms ?? 0);
    if (wait >= this.#bootLeft) throw bootTimeout(boot_seconds, reasonOf(error), error);
    await pause(wait, signal);
    this.#bootLeft -= wait;
  }

  /** Waits until it runs. Whatever comes between deletes it. */
  async #running(created: Instance): Promise<{ instance: Instance; root: string }> {
    const { signal, boot_seconds, task } = this.#request;
    const { client, timings } = this.#parts;
    let instance = created;
    const end = performance.now() + this.#bootLeft;
    try {
      signal.throwIfAborted();
      while (instance.status === 'pending') {
        if (performance.now() + timings.pendingPoll >= end) {
          throw bootTimeout(boot_seconds, `instance ${instance.instance_id} is still pending`);
        }
        await pause(timings.pendingPoll, signal);
        instance = await client.instance(created.instance_id, {
          signal,
          retryNotFound: true,
          timeout_ms: Math.max(1, end - performance.now()),
        });
      }
      const root = instance.urls?.root ?? created.urls?.root;
      if (instance.status === 'error' || instance.status === 'stopped' || !root || !URL.canParse(root)) {
        const why = root && URL.canParse(root) ? `its status is ${instance.status}` : 'it has no URL';
        throw infraFailure(
          'environment_failed',
          `environment ${task.env_key} was created as ${instance.instance_id}, but ${why}`,
          { phase: 'boot' },
        );
      }
      this.#bootLeft = end - performance.now();
      return { instance, root };
    } catch (error) {
      await removeInstance(this.#parts, created.instance_id, this.#runId);
      signal.throwIfAborted();
      const isLate = error instanceof FleetApiError && error.kind === 'timeout';
      throw isLate ? bootTimeout(boot_seconds, reasonOf(error), error) : createFailure(error, task.env_key);
    }
  }

  #summary(made: { instance: Instance; root: string }): CreatedInstance {
    const { boot_seconds, wait_seconds } = this.#request;
    return {
      ...made,
      run_id: this.#runId,
      create_ms: Math.round(boot_seconds * 1000 - this.#bootLeft),
      wait_ms: Math.round(wait_seconds * 1000 - this.#waitLeft),
      tries: this.#tries,
    };
  }
}

/** Whether the service may have made something, or may still do: no answer, or one that says nothing of it. */
function mayHaveMade(error: Error): boolean {
  if (!(error instanceof FleetApiError)) return true;
  if (error.unsent) return false;
  return ['timeout', 'transport', 'malformed', 'server', 'conflict'].includes(error.kind);
}

function bootTimeout(seconds: number, why: string, cause?: unknown): Error {
  return infraFailure('boot_timeout', `no environment within ${seconds} s: ${why}`, { phase: 'boot', cause });
}
