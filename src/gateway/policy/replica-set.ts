import type { Logger } from '../../observe/index.ts';
import { EngineError } from '../engines/engine-error.ts';
import { CallSlots } from './call-slots.ts';
import { EngineLoad } from './engine-load.ts';
import { latecomer } from './latecomer.ts';
import { isHealthy, ReplicaHealth, type ReplicaCondition } from './replica-health.ts';
import { Replica } from './replica.ts';

export interface ReplicaOptions {
  /** Calls of this process that one replica has at once; others wait. Default: no limit. */
  readonly callsAtOnce?: number | undefined;
  /** Where to begin among replicas with equal load, so that not every process begins with the same. Default: 0. */
  readonly first?: number;
  /** A replica whose calls hear nothing for so long is asked whether it lives. Default: 15 s. */
  readonly silenceMs?: number;
  /** Milliseconds such a question may take. Default: 5 s. */
  readonly checkMs?: number;
  /** URLs that did not answer at the start: dead, until `admit` takes them. Default: none. */
  readonly down?: readonly string[];
  /**
   * Asked once before a replica that was down at the start gets its first call: null when it is what the others are, else
   * why it is not used. Rejects while it does not answer. Default: all are taken.
   */
  readonly admit?: (url: string, signal: AbortSignal) => Promise<string | null>;
}

/** Questions in a row that a silent replica leaves open before it counts as dead. */
const missesOfTheDead = 3;

/** One replica with what this process knows of it. */
export interface Server {
  readonly replica: Replica;
  readonly slots: CallSlots;
  readonly health: ReplicaHealth;
  readonly load: EngineLoad;
  /** Episodes that stay on it. */
  sessions: number;
  misses: number;
  asking: boolean;
}

/** Which replica an episode stays on: its prefix cache is there. */
export interface Affinity {
  server: Server | null;
}

const rank: Record<ReplicaCondition, number> = { up: 0, failing: 1, dead: 2 };

/** The servers of one policy: an episode stays on one, the least loaded when it began, and moves when that one dies. */
export class ReplicaSet {
  readonly #servers: readonly Server[];
  readonly #log: Logger;
  readonly #closing = new AbortController();
  readonly #waiting = new Set<() => void>();
  readonly #silenceMs: number;
  readonly #checkMs: number;
  readonly #timer: NodeJS.Timeout;
  /** While true nobody is asked for a sign of life: a paused engine may keep silent. */
  readonly #mayBeSilent: () => boolean;
  #held = 0;

  constructor(
    urls: readonly string[],
    apiKey: string | undefined,
    log: Logger,
    options: ReplicaOptions = {},
    mayBeSilent: () => boolean = () => false,
  ) {
    if (urls.length === 0) throw new Error('the policy needs at least one URL');
    const { callsAtOnce = Infinity, first = 0, silenceMs = 15_000, checkMs = 5_000, down = [] } = options;
    const begin = first % urls.length;
    this.#log = log;
    this.#mayBeSilent = mayBeSilent;
    this.#silenceMs = silenceMs;
    this.#checkMs = checkMs;
    this.#servers = [...urls.slice(begin), ...urls.slice(0, begin)].map((url) => {
      const replica = new Replica(url, apiKey);
      const asked = (signal: AbortSignal): Promise<boolean> => isHealthy(replica, checkMs, signal);
      return {
        replica,
        slots: new CallSlots(callsAtOnce),
        health: new ReplicaHealth(
          down.includes(url) ? latecomer(replica, url, checkMs, options.admit, log) : asked,
          this.#closing.signal,
          (now) => this.#changed(replica, now),
        ),
        load: new EngineLoad(replica, this.#closing.signal),
        sessions: 0,
        misses: 0,
        asking: false,
      };
    });
    for (const [at, { health }] of this.#servers.entries()) {
      if (down.includes(urls[(begin + at) % urls.length]!)) health.beginsDead();
    }
    this.#timer = setInterval(() => this.#askTheSilent(), silenceMs / 3).unref();
  }

  /** Whether there is a replica that a call can go to. */
  get inReach(): boolean {
    return this.#servers.some(({ health }) => health.condition !== 'dead');
  }

  /** The episode's replica, or a new one for it where its own is worse off than another; `except` where there is another. */
  choose(affinity: Affinity, except?: Server): Server {
    const least = Math.min(...this.#servers.map(({ health }) => rank[health.condition]));
    const best = this.#servers.filter(({ health }) => rank[health.condition] === least);
    const others = best.filter((each) => each !== except);
    const candidates = others.length > 0 ? others : best;
    if (affinity.server !== null && candidates.includes(affinity.server)) return affinity.server;
    const chosen = candidates.reduce((found, each) => (lessLoaded(each, found) ? each : found));
    this.release(affinity);
    chosen.sessions++;
    affinity.server = chosen;
    return chosen;
  }

  release(affinity: Affinity): void {
    if (affinity.server !== null) affinity.server.sessions--;
    affinity.server = null;
  }

  /** Resolves when some replica can be reached; rejects with the signal's reason. */
  reached(signal: AbortSignal): Promise<void> {
    return new Promise((resolve, reject) => {
      if (signal.aborted) return reject(signal.reason as Error);
      if (this.inReach) return resolve();
      const settle = (then: () => void) => (): void => {
        this.#waiting.delete(go);
        signal.removeEventListener('abort', stop);
        then();
      };
      const go = settle(resolve);
      const stop = settle(() => reject(signal.reason as Error));
      this.#waiting.add(go);
      signal.addEventListener('abort', stop, { once: true });
    });
  }

  /**
   * Counts a call that waits for any replica to answer again, until the result is disposed. An outage is said once, however
   * many calls it holds: to an operator nothing else tells it from slow episodes.
   */
  hold(): Disposable {
    const policy = this.#servers.map(({ replica }) => replica.name);
    if (this.#held === 0) this.#log.warn({ policy }, 'the policy does not answer: its calls are held');
    this.#held += 1;
    return {
      [Symbol.dispose]: () => {
        this.#held -= 1;
        if (this.#held === 0) this.#log.info({ policy }, 'no call waits for the policy any more');
      },
    };
  }

  async close(): Promise<void> {
    clearInterval(this.#timer);
    this.#closing.abort(new Error('the gateway is closed'));
    await Promise.all(this.#servers.map(({ replica }) => replica.close()));
  }

  #changed(replica: Replica, condition: ReplicaCondition): void {
    const server = this.#servers.find((each) => each.replica === replica);
    if (server === undefined) return;
    server.misses = 0;
    if (condition === 'dead') server.slots.turnAway();
    else for (const go of [...this.#waiting]) go();
    if (this.#servers.length === 1) return;
    const told = { replica: replica.name, condition, episodes: server.sessions };
    if (condition === 'up') this.#log.info(told, 'a replica of the policy takes calls again');
    else this.#log.warn(told, 'a replica of the policy does not work: its episodes move to others');
  }

  /** A server that froze, or whose machine went away, breaks no connection: its calls would wait for their deadlines. */
  #askTheSilent(): void {
    if (this.#mayBeSilent()) return;
    for (const server of this.#servers) {
      if (server.slots.silentMs() < this.#silenceMs) server.misses = 0;
      else if (!server.asking) void this.#ask(server);
    }
  }

  async #ask(server: Server): Promise<void> {
    server.asking = true;
    const healthy = await isHealthy(server.replica, this.#checkMs, this.#closing.signal);
    server.asking = false;
    if (healthy) server.misses = 0;
    else server.misses++;
    if (server.misses < missesOfTheDead || this.#closing.signal.aborted) return;
    server.health.found('dead');
    // With no other to go to they stay: it may yet answer.
    if (this.inReach) server.slots.cut(new EngineError('unreachable', 'the policy gives no sign of life'));
  }
}

/** Less load: of our own, then of everybody's where both say. */
function lessLoaded(a: Server, b: Server): boolean {
  const own = a.sessions + a.slots.load - (b.sessions + b.slots.load);
  if (own !== 0) return own < 0;
  const [ofA, ofB] = [a.load.requests, b.load.requests];
  return ofA !== null && ofB !== null && ofA < ofB;
}
