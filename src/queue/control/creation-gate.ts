import { randomUUID } from 'node:crypto';
import type { CreationGate, CreationTicket } from '../../contracts/index.ts';
import { silentLogger } from '../../observe/index.ts';
import type { QueueOptions } from '../api.ts';
import { connectPatient, disconnect } from '../connection.ts';
import { enterGate, type GateEntry } from '../lua/gate-enter.ts';
import { freeGate } from '../lua/gate-freed.ts';
import { leaveGate } from '../lua/gate-left.ts';
import { passGate } from '../lua/gate-passed.ts';
import { refuseGate } from '../lua/gate-refused.ts';
import { checkName, queueNames } from '../names.ts';
import { within } from '../worker/within.ts';

/** Every interval of the gate, milliseconds unless named otherwise. */
export interface CreationPace {
  /** Pause after the first refusal; it doubles with each further one, and each pass takes one doubling off. */
  readonly firstPauseMs: number;
  readonly longestPauseMs: number;
  /** Bounds of a pause that the provider asked for. */
  readonly shortestAskedMs: number;
  readonly longestAskedMs: number;
  /** How long one creation keeps the others out after a pause, when nothing is heard of it. */
  readonly leaseMs: number;
  /** Creations in a row that passed: then the gate is open again. */
  readonly passesToOpen: number;
  /** Time after a pause in which creations ended and none was refused: then the gate is open again. */
  readonly quietMs: number;
  /** Longest wait before one that waits behind another's creation asks again. */
  readonly pollMs: number;
  /** Longest wait before any asks again. */
  readonly longestWaitMs: number;
  /** Longest time that a ticket waits for Redis to hear what became of it; it is told later then. */
  readonly tellMs: number;
}

export const defaultCreationPace: CreationPace = Object.freeze({
  firstPauseMs: 1_000,
  longestPauseMs: 60_000,
  shortestAskedMs: 100,
  longestAskedMs: 600_000,
  leaseMs: 30_000,
  passesToOpen: 10,
  quietMs: 30_000,
  pollMs: 250,
  longestWaitMs: 5_000,
  tellMs: 2_000,
});

export interface CreationGateOptions extends QueueOptions {
  /** Name of the provider whose creations are limited, one gate for each: letters, digits and `._-`. */
  readonly provider: string;
  /** Over `defaultCreationPace`. */
  readonly pace?: Partial<CreationPace>;
}

/** A gate that all workers with the same Redis, prefix and provider share. Those who wait are let go when it closes. */
export interface SharedCreationGate extends CreationGate, AsyncDisposable {
  freed(): Promise<void>;
  close(): Promise<void>;
}

interface Waiter {
  admit(ticket: CreationTicket): void;
  refuse(reason: Error): void;
}

/**
 * Opens the gate in this process, over a Redis connection of its own. Rejects with RedisUnreachableError at the start;
 * later, while Redis is away, who asks to enter waits for it, and what became of a creation is told when it is back.
 */
export async function createCreationGate(options: CreationGateOptions): Promise<SharedCreationGate> {
  const { redisUrl, provider, log = silentLogger } = options;
  checkName('provider', provider);
  const pace: CreationPace = { ...defaultCreationPace, ...options.pace };
  const gate = queueNames(options.prefix).gate(provider);
  const redis = await connectPatient({ redisUrl, log, name: 'rollpool-gate' });
  const waiting: Waiter[] = [];
  let closed: Promise<void> | null = null;
  let giveUp = (): void => {};
  let asking: Promise<void> | null = null;
  let news = 0;
  let endSleep = (): void => {};
  const wake = (): void => {
    news += 1;
    endSleep();
  };

  const sleep = (ms: number): Promise<void> =>
    new Promise((resolve) => {
      const timer = setTimeout(resolve, ms);
      endSleep = () => {
        clearTimeout(timer);
        resolve();
      };
    });

  const tellRedis = async (tell: () => Promise<void>): Promise<void> => {
    const told = tell().catch((fault: unknown) => {
      if (closed === null) log.warn({ err: String(fault), provider }, 'creation gate');
    });
    await within(told, pace.tellMs);
  };

  const ticket = (token: string, at: number, leased: boolean): CreationTicket => {
    let over = false;
    const end = async (tell: () => Promise<unknown>): Promise<void> => {
      if (over) return;
      over = true;
      await tellRedis(async () => {
        await tell();
        if (leased) wake();
      });
    };
    return {
      // While the gate was open there was nothing to open.
      passed: () =>
        end(async () => leased && (await passGate(redis, gate, { token, at }, pace.passesToOpen))),
      refused: (retry_after_ms) =>
        end(async () => {
          const closedMs = await refuseGate(redis, gate, { token, at }, pauseOf(retry_after_ms, pace));
          log.info({ provider, closed_ms: closedMs }, 'creations are held back after a refusal');
        }),
      left: () => end(async () => leased && (await leaveGate(redis, gate, token))),
    };
  };

  /** null: closed meanwhile. A command that waits for Redis is not answered when its connection is given up. */
  const asked = (token: string): Promise<GateEntry | null> =>
    new Promise((resolve, reject) => {
      giveUp = () => resolve(null);
      enterGate(redis, gate, token, pace).then(resolve, reject);
    });

  /** Lets in who may enter now; the milliseconds until asking again. */
  const admit = async (token: string, entry: GateEntry): Promise<number> => {
    if (entry.verdict === 'wait') {
      // Spread, so that the workers of a pool do not ask all at once.
      return Math.min(entry.ms, pace.longestWaitMs) * (1 + 0.2 * Math.random());
    }
    if (entry.verdict === 'open') {
      for (const waiter of waiting.splice(0)) waiter.admit(ticket(token, entry.at, false));
      return 0;
    }
    const lease = ticket(token, entry.at, true);
    const first = waiting.shift();
    if (first === undefined) await lease.left();
    else first.admit(lease);
    return 0;
  };

  // One asks for all that wait in this process, however many they are.
  const askOn = async (): Promise<void> => {
    while (waiting.length > 0 && closed === null) {
      const token = randomUUID();
      const heard = news;
      let ms = pace.longestWaitMs;
      try {
        const entry = await asked(token);
        if (entry === null) return;
        ms = await admit(token, entry);
      } catch (fault) {
        if (closed !== null) return;
        log.warn({ err: String(fault), provider }, 'creation gate');
      }
      // Who entered before may have ended while we asked.
      if (ms > 0 && waiting.length > 0 && news === heard) await sleep(ms);
    }
  };

  const ask = (): void => {
    asking ??= askOn().finally(() => {
      asking = null;
      // One may have come between the last look and now.
      if (waiting.length > 0 && closed === null) ask();
    });
  };

  const enter = (signal: AbortSignal): Promise<CreationTicket> => {
    if (signal.aborted) return Promise.reject(signal.reason as Error);
    if (closed !== null) return Promise.reject(new Error('the creation gate is closed'));
    return new Promise((resolve, reject) => {
      const quit = (): void => {
        waiting.splice(waiting.indexOf(waiter), 1);
        reject(signal.reason as Error);
        if (waiting.length === 0) wake();
      };
      const waiter: Waiter = {
        admit: (granted) => {
          signal.removeEventListener('abort', quit);
          resolve(granted);
        },
        refuse: (reason) => {
          signal.removeEventListener('abort', quit);
          reject(reason);
        },
      };
      waiting.push(waiter);
      signal.addEventListener('abort', quit, { once: true });
      ask();
    });
  };

  const freed = async (): Promise<void> => {
    if (closed !== null) return;
    await tellRedis(async () => {
      if (await freeGate(redis, gate)) wake();
    });
  };

  const close = (): Promise<void> =>
    (closed ??= (async () => {
      for (const waiter of waiting.splice(0)) waiter.refuse(new Error('the creation gate is closed'));
      wake();
      giveUp();
      await asking;
      await disconnect(redis);
    })());
  return { enter, freed, close, [Symbol.asyncDispose]: close };
}

function pauseOf(retryAfterMs: number | null, pace: CreationPace): Parameters<typeof refuseGate>[3] {
  const asked = retryAfterMs === null || Number.isNaN(retryAfterMs) ? null : Math.ceil(retryAfterMs);
  return {
    askedMs: asked === null ? null : Math.min(pace.longestAskedMs, Math.max(pace.shortestAskedMs, asked)),
    firstMs: pace.firstPauseMs,
    longestMs: pace.longestPauseMs,
    spread: 0.75 + 0.5 * Math.random(),
    rememberMs: pace.leaseMs + pace.quietMs,
  };
}
