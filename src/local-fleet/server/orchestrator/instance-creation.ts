import { setTimeout as delay } from 'node:timers/promises';
import type { FaultSwitch } from '../faults/fault-switch.ts';
import { readBody, type Exchange } from '../http/exchange.ts';
import { ConnectionCut, Refusal } from '../http/refusal.ts';
import type { Catalogue } from '../instances/catalogue.ts';
import { instanceAnswer } from '../instances/instance-answer.ts';
import { instanceRequestSchema, planInstance, type InstancePlan } from '../instances/instance-request.ts';
import type { Instance } from '../instances/instance.ts';
import { limitReached, type Instances } from '../instances/instances.ts';

/** Request ids that are remembered, so that one sent again is known. */
const rememberedRequests = 4_000;

/** `POST /v1/env/instances`. */
export class InstanceCreation {
  readonly #catalogue: Catalogue;
  readonly #instances: Instances;
  readonly #faults: FaultSwitch;
  readonly #closing: AbortSignal;
  /** `X-Request-ID` -> instance. */
  readonly #made = new Map<string, string>();

  constructor(catalogue: Catalogue, instances: Instances, faults: FaultSwitch, closing: AbortSignal) {
    this.#catalogue = catalogue;
    this.#instances = instances;
    this.#faults = faults;
    this.#closing = closing;
  }

  async handle(exchange: Exchange): Promise<unknown> {
    const plan = planInstance(await readBody(exchange, instanceRequestSchema), this.#catalogue);
    const requestId = exchange.request.headers['x-request-id'];
    this.#refuseRepeated(requestId);
    const occasion = { run_id: plan.run_id };
    this.#refuseByFault(plan);
    const slow = this.#faults.take('create_slow', occasion);
    if (slow !== undefined) {
      // Not ended by a client that leaves: the service goes on making what it was asked for.
      await delay(slow.ms, undefined, { signal: this.#closing }).catch(() => undefined);
    }
    const instance = await this.#create(plan, requestId);
    const lost = this.#faults.take('create_lost', occasion);
    if (lost?.as === 'cut') throw new ConnectionCut();
    if (lost !== undefined) throw new Refusal(504, 'Gateway Timeout');
    return instanceAnswer(instance, exchange.origin);
  }

  async #create(plan: InstancePlan, requestId: string | string[] | undefined): Promise<Instance> {
    try {
      return await this.#instances.create(plan, (id) => this.#remember(requestId, id));
    } catch (error) {
      // What the machine refuses has a code; the rest is the environment's refusal of what was asked for.
      if (error instanceof Refusal || !(error instanceof Error) || 'code' in error) throw error;
      throw new Refusal(400, error.message);
    }
  }

  #refuseByFault({ run_id, environment }: InstancePlan): void {
    const occasion = { run_id };
    const limited = this.#faults.take('create_limit', occasion);
    if (limited !== undefined) {
      const running = this.#instances.live().length;
      const words = limitReached(running, running);
      if (limited.shape === 'text') throw words;
      throw new Refusal(403, {
        error_type: 'instance_limit_exceeded',
        message: words.message,
        running_instances: running,
        instance_limit: running,
      });
    }
    const burst = this.#faults.take('create_burst', occasion);
    if (burst !== undefined) {
      throw new Refusal(
        429,
        'Too many in-flight instance creations for this team',
        burst.retry_after === null ? {} : { 'retry-after': String(burst.retry_after) },
      );
    }
    const transient = this.#faults.take('create_transient', occasion);
    if (transient?.as === 'unavailable') throw new Refusal(503, 'Service temporarily unavailable');
    if (transient !== undefined) {
      const driver = {
        detail: {
          error: 'seed_placement_failed',
          message: `could not place the seed of ${environment.env_key}`,
          retryable: true,
        },
      };
      // With spaces after colons, as the service's Python writes it: clients look for the text.
      const text = JSON.stringify(driver).replaceAll('":', '": ');
      throw new Refusal(400, `Driver API returned 400: ${text}`);
    }
  }

  /** One sent again by a transport that saw no answer is told what came of the first. */
  #refuseRepeated(requestId: string | string[] | undefined): void {
    if (typeof requestId !== 'string') return;
    const instance_id = this.#made.get(requestId);
    if (instance_id === undefined) return;
    const message = `Request '${requestId}' was already processed and made instance '${instance_id}'`;
    throw new Refusal(409, { error: 'duplicate_request_id', message, instance_id });
  }

  #remember(requestId: string | string[] | undefined, instance: string): void {
    if (typeof requestId !== 'string') return;
    this.#made.set(requestId, instance);
    if (this.#made.size > rememberedRequests) {
      for (const oldest of this.#made.keys()) {
        this.#made.delete(oldest);
        break;
      }
    }
  }
}
