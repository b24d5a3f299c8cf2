import type { EnvironmentDatabase, LocalEnvironment, LocalTool } from '../../environment/environment.ts';
import type { InstancePlan } from './instance-request.ts';

/** `stopped`: it was deleted or its time was up. `error`: it ended by itself. */
export type InstanceStatus = 'pending' | 'running' | 'stopped' | 'error';

/** An instance as the wire shows it, also when there is nothing left of it. */
export class Instance {
  readonly id: string;
  readonly plan: InstancePlan;
  readonly created = new Date();
  status: InstanceStatus = 'pending';
  updated = this.created;
  terminated: Date | null = null;
  heartbeat: Date | null = null;
  /** Tool calls that reached it. */
  calls = 0;
  readonly #ended = new AbortController();
  #database: EnvironmentDatabase | null = null;

  constructor(id: string, plan: InstancePlan) {
    this.id = id;
    this.plan = plan;
  }

  get environment(): LocalEnvironment {
    return this.plan.environment;
  }

  get tools(): readonly LocalTool[] {
    return this.plan.environment.tools;
  }

  /** Aborts when it ends. */
  get ended(): AbortSignal {
    return this.#ended.signal;
  }

  get live(): boolean {
    return this.status === 'pending' || this.status === 'running';
  }

  /** Its data; null unless it runs. */
  get database(): EnvironmentDatabase | null {
    return this.status === 'running' ? this.#database : null;
  }

  start(database: EnvironmentDatabase): void {
    this.#database = database;
    this.status = 'running';
    this.updated = new Date();
  }

  /** Ends it: who waits on it is told first, then its data goes. Safe to repeat. */
  async end(status: 'stopped' | 'error'): Promise<void> {
    if (!this.live) return;
    this.status = status;
    this.terminated = this.updated = new Date();
    this.#ended.abort();
    const database = this.#database;
    this.#database = null;
    await database?.[Symbol.asyncDispose]();
  }
}
