import type { Logger } from '../../observe/index.ts';
import { Replica } from './replica.ts';

/** How long a replica that does not answer is left alone while others do. */
const coolDownMs = 5_000;

/** Which replica an episode stays on: its prefix cache is there. */
export interface Affinity {
  replica: Replica | null;
}

/** The servers of one policy: an episode stays on one, the least loaded when it began, and moves when that one dies. */
export class ReplicaSet {
  readonly #replicas: readonly Replica[];
  readonly #log: Logger;
  #held = 0;

  constructor(urls: readonly string[], apiKey: string | undefined, log: Logger) {
    if (urls.length === 0) throw new Error('the policy needs at least one URL');
    this.#replicas = urls.map((url) => new Replica(url, apiKey));
    this.#log = log;
  }

  #up(): Replica[] {
    const now = performance.now();
    return this.#replicas.filter((replica) => replica.downUntil <= now);
  }

  choose(affinity: Affinity): Replica {
    const up = this.#up();
    if (affinity.replica !== null && (up.length === 0 || up.includes(affinity.replica))) {
      return affinity.replica;
    }
    const candidates = up.length > 0 ? up : this.#replicas;
    const chosen = candidates.reduce((best, each) =>
      each.inFlight + each.sessions < best.inFlight + best.sessions ? each : best,
    );
    this.release(affinity);
    chosen.sessions++;
    affinity.replica = chosen;
    return chosen;
  }

  release(affinity: Affinity): void {
    if (affinity.replica !== null) affinity.replica.sessions--;
    affinity.replica = null;
  }

  /** Leaves `replica` alone for a while. True when another one is there to go on with. */
  avoid(replica: Replica): boolean {
    replica.downUntil = performance.now() + coolDownMs;
    return this.#up().length > 0;
  }

  /**
   * Counts a call that waits for any replica to answer again, until the result is disposed. An outage is said once, however
   * many calls it holds: to an operator nothing else tells it from slow episodes.
   */
  hold(): Disposable {
    const policy = this.#replicas.map(({ name }) => name);
    if (this.#held === 0) this.#log.warn({ policy }, 'the policy does not answer: its calls are held');
    this.#held += 1;
    return {
      [Symbol.dispose]: () => {
        this.#held -= 1;
        if (this.#held === 0) this.#log.info({ policy }, 'no call waits for the policy any more');
      },
    };
  }

  answered(replica: Replica): void {
    replica.downUntil = 0;
  }

  async close(): Promise<void> {
    await Promise.all(this.#replicas.map((replica) => replica.close()));
  }
}
