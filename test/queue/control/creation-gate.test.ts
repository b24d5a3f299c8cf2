import { setMaxListeners } from 'node:events';
import type { Redis } from 'ioredis';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { CreationTicket } from '../../../src/contracts/index.ts';
import { silentLogger } from '../../../src/observe/index.ts';
import { connectFailFast, queueNames } from '../../../src/queue/index.ts';
import {
  createCreationGate,
  type CreationPace,
  type SharedCreationGate,
} from '../../../src/queue/control/index.ts';
import { startOwnRedis } from '../../support/own-redis.ts';
import { freshPrefix, testRedisUrl } from '../../support/redis.ts';
import { until } from '../../support/wait.ts';

const never = 3_600_000;
/** Short pauses; nothing opens by the passing of time unless a test says so. */
const shortPace: Partial<CreationPace> = {
  firstPauseMs: 60,
  longestPauseMs: 240,
  shortestAskedMs: 1,
  leaseMs: 20_000,
  quietMs: never,
  pollMs: 20,
  longestWaitMs: 200,
};
const forever = new AbortController().signal;
setMaxListeners(0, forever);

let redis: Redis & AsyncDisposable;
let prefix: string;
let key: string;
let gates: SharedCreationGate[];

beforeEach(async () => {
  prefix = freshPrefix();
  key = queueNames(prefix).gate('fleet');
  redis = await connectFailFast({ redisUrl: testRedisUrl(), log: silentLogger });
  gates = [];
});
afterEach(async () => {
  for (const gate of gates) await gate.close();
  await redis[Symbol.asyncDispose]();
});

/** The gate of one more worker. */
async function open(
  pace: Partial<CreationPace> = {},
  redisUrl = testRedisUrl(),
): Promise<SharedCreationGate> {
  const gate = await createCreationGate({
    redisUrl,
    prefix,
    provider: 'fleet',
    pace: { ...shortPace, ...pace },
  });
  gates.push(gate);
  return gate;
}

interface Asked {
  ticket: CreationTicket | null;
  readonly entered: Promise<CreationTicket>;
}
function ask(gate: SharedCreationGate, signal: AbortSignal = forever): Asked {
  const asked: Asked = {
    ticket: null,
    entered: gate.enter(signal).then((ticket) => (asked.ticket = ticket)),
  };
  return asked;
}

/** Closes the gate for `ms`. */
async function refuse(gate: SharedCreationGate, ms: number | null): Promise<void> {
  await (await gate.enter(forever)).refused(ms);
}

const redisNow = async (): Promise<number> => {
  const [seconds, micros] = await redis.time();
  return Number(seconds) * 1000 + Math.floor(Number(micros) / 1000);
};
const closedFor = async (): Promise<number> => Number(await redis.hget(key, 'until')) - (await redisNow());
/** Ends a pause now, as if its time were over. */
async function endPause(): Promise<void> {
  const refusedAt = Number(await redis.hget(key, 'refused_at'));
  await until(async () => (await redisNow()) > refusedAt + 1, 'the refusal is past');
  await redis.hset(key, 'until', refusedAt + 1);
}

describe('an open gate', () => {
  it('lets everybody through at once, and leaves nothing in Redis', async () => {
    const gate = await open();
    const tickets = await Promise.all(Array.from({ length: 50 }, () => gate.enter(forever)));
    await Promise.all(tickets.map((ticket, index) => (index % 2 === 0 ? ticket.passed() : ticket.left())));
    expect(await redis.keys(`${prefix}*`)).toEqual([]);
  });
});

describe('a refusal', () => {
  it('holds back every worker for as long as the provider asked', async () => {
    const [first, second] = [await open(), await open()];
    await refuse(first, 60_000);
    const asked = [ask(first), ask(second)];
    expect(await closedFor()).toBeGreaterThan(50_000);
    expect(await redis.hget(key, 'lease')).toBeNull();
    expect(asked.map(({ ticket }) => ticket)).toEqual([null, null]);
    await endPause();
    const one = await Promise.race(asked.map(({ entered }) => entered));
    await one.passed();
    await (await asked.find(({ ticket }) => ticket !== one)!.entered).passed();
  });

  it('closes for a pause that doubles up to the longest, and a pass takes one doubling off', async () => {
    const gate = await open({ firstPauseMs: 1_000, longestPauseMs: 6_000 });
    const refusedFor = async (): Promise<number> => {
      await refuse(gate, null);
      const [from, to] = await redis.hmget(key, 'refused_at', 'until');
      const ms = Number(to) - Number(from);
      await endPause();
      return ms;
    };
    const near = (ms: number, pause: number): void => {
      expect(ms).toBeGreaterThanOrEqual(0.75 * pause);
      expect(ms).toBeLessThanOrEqual(1.25 * pause);
    };
    near(await refusedFor(), 1_000);
    near(await refusedFor(), 2_000);
    near(await refusedFor(), 4_000);
    expect(await refusedFor()).toBeLessThanOrEqual(6_000);
    for (let passed = 0; passed < 3; passed += 1) await (await gate.enter(forever)).passed();
    near(await refusedFor(), 2_000);
  });

  it('of creations that were under way together doubles once', async () => {
    const [first, second] = [await open({ firstPauseMs: 1_000 }), await open({ firstPauseMs: 1_000 })];
    const tickets = await Promise.all(
      Array.from({ length: 32 }, (_none, index) => (index % 2 === 0 ? first : second).enter(forever)),
    );
    await Promise.all(tickets.map((ticket) => ticket.refused(null)));
    expect(await redis.hget(key, 'streak')).toBe('1');
    expect(await closedFor()).toBeLessThanOrEqual(1_250);
  });

  it('that comes late may still say how long, and never makes it shorter', async () => {
    const gate = await open();
    const [early, late, later] = await Promise.all([1, 2, 3].map(() => gate.enter(forever)));
    await early!.refused(10_000);
    await late!.refused(50_000);
    await later!.refused(1_000);
    expect(await closedFor()).toBeGreaterThan(40_000);
  });

  it('with a pause beyond reason is cut to the longest', async () => {
    const gate = await open({ longestAskedMs: 30_000 });
    await refuse(gate, 1e12);
    expect(await closedFor()).toBeLessThanOrEqual(30_000);
  });

  it('is waited out no longer when a place has become free, unless the provider said how long', async () => {
    const [first, second] = [await open({ firstPauseMs: 60_000, longestPauseMs: 60_000 }), await open()];
    await first.freed();
    await refuse(first, null);
    const asked = [ask(first), ask(first)];
    expect(await closedFor()).toBeGreaterThan(30_000);
    await second.freed();
    const one = await Promise.race(asked.map(({ entered }) => entered));
    // One place, one try.
    expect(asked.filter(({ ticket }) => ticket !== null)).toHaveLength(1);
    await one.refused(50_000);
    await second.freed();
    expect(await closedFor()).toBeGreaterThan(30_000);
    expect(asked.filter(({ ticket }) => ticket === null)).toHaveLength(1);
    for (const { entered } of asked) entered.catch(() => undefined);
  });

  it('that is told only after a place has become free closes nothing: it may be older', async () => {
    const gate = await open({ firstPauseMs: 60_000, longestPauseMs: 60_000 });
    await refuse(gate, null);
    await gate.freed();
    const late = await gate.enter(forever);
    await gate.freed();
    await late.refused(null);
    await (await gate.enter(forever)).passed();
  });

  it('of one provider holds back no other', async () => {
    const gate = await open();
    await using other = await createCreationGate({ redisUrl: testRedisUrl(), prefix, provider: 'e2b' });
    await refuse(gate, 60_000);
    await (await other.enter(forever)).passed();
  });
});

describe('after the pause', () => {
  it('one at a time is let in, in the whole pool; what became of it lets the next one in', async () => {
    const all = [await open(), await open(), await open()];
    await refuse(all[0]!, 1);
    let inside = 0;
    let most = 0;
    await Promise.all(
      all.flatMap((gate) =>
        Array.from({ length: 3 }, async (_none, index) => {
          const ticket = await gate.enter(forever);
          inside += 1;
          most = Math.max(most, inside);
          await redis.ping();
          inside -= 1;
          await (index === 0 ? ticket.left() : ticket.passed());
        }),
      ),
    );
    expect(most).toBe(1);
    expect(await redis.exists(key)).toBe(1);
  });

  it('enough that pass in a row open it and forget the refusals', async () => {
    const gate = await open({ passesToOpen: 3 });
    await refuse(gate, 1);
    for (let passed = 0; passed < 2; passed += 1) await (await gate.enter(forever)).passed();
    await refuse(gate, 1);
    for (let passed = 0; passed < 3; passed += 1) {
      expect(await redis.exists(key)).toBe(1);
      await (await gate.enter(forever)).passed();
    }
    expect(await redis.exists(key)).toBe(0);
  });

  it('a quiet time opens it too, once one has ended', async () => {
    const gate = await open({ quietMs: 0 });
    await refuse(gate, 1);
    const held = await gate.enter(forever);
    const next = ask(gate);
    const another = ask(gate);
    await held.passed();
    await Promise.all([next.entered, another.entered]);
    expect(await redis.exists(key)).toBe(0);
  });

  it('one that died holds the others back only until its lease ends', async () => {
    const [first, second] = [await open(), await open({ leaseMs: 150 })];
    await refuse(first, 1);
    const lost = await second.enter(forever);
    const waits = ask(first);
    await second.close();
    const ticket = await waits.entered;
    // Its late word changes nothing of the other's lease.
    const lease = await redis.hget(key, 'lease');
    await lost.left();
    expect(await redis.hget(key, 'lease')).toBe(lease);
    await ticket.passed();
  });

  it('a herd tries a few times a pause, and all of it gets through', async () => {
    const all = [await open(), await open(), await open()];
    await refuse(all[0]!, null);
    const attempts: number[] = [];
    let refusals = 5;
    await Promise.all(
      Array.from({ length: 64 }, async (_none, index) => {
        for (;;) {
          const ticket = await all[index % 3]!.enter(forever);
          attempts.push(index);
          if (refusals === 0) {
            await ticket.passed();
            return;
          }
          refusals -= 1;
          await ticket.refused(null);
        }
      }),
    );
    expect(attempts).toHaveLength(64 + 5);
    expect(new Set(attempts).size).toBe(64);
  });
});

describe('what it keeps in Redis', () => {
  it('goes by itself, whatever happens', async () => {
    const gate = await open({ quietMs: 500, leaseMs: 500 });
    const lasts = async (): Promise<number> => redis.pttl(key);
    await refuse(gate, 1_000);
    expect(await lasts()).toBeGreaterThan(1_000);
    expect(await lasts()).toBeLessThanOrEqual(2_000);
    await endPause();
    const ticket = await gate.enter(forever);
    expect(await lasts()).toBeGreaterThan(0);
    expect(await lasts()).toBeLessThanOrEqual(1_000);
    await ticket.passed();
    expect(await lasts()).toBeLessThanOrEqual(1_000);
    expect(await lasts()).toBeGreaterThan(0);
    expect(await redis.keys(`${prefix}*`)).toEqual([key]);
    await until(async () => (await redis.exists(key)) === 0, 'the gate is forgotten');
  });
});

describe('who waits', () => {
  it('is let go at once with the reason of its signal, and takes no place', async () => {
    const gate = await open();
    await expect(gate.enter(AbortSignal.abort(new Error('before')))).rejects.toThrow('before');
    await refuse(gate, 60_000);
    const control = new AbortController();
    const waits = gate.enter(control.signal);
    const stays = ask(gate);
    control.abort(new Error('cancelled'));
    await expect(waits).rejects.toThrow('cancelled');
    await endPause();
    await (await stays.entered).passed();
    expect(await redis.hget(key, 'lease')).toBeNull();
  });

  it('is let go when the gate closes, after which nobody enters', async () => {
    const gate = await open();
    await refuse(gate, 60_000);
    const waits = expect(gate.enter(forever)).rejects.toThrow('closed');
    await gate.close();
    await waits;
    await expect(gate.enter(forever)).rejects.toThrow('closed');
  });

  it('waits for Redis to come back, and may leave meanwhile', async () => {
    await using own = await startOwnRedis();
    const gate = await open({ tellMs: 50 }, own.url);
    const before = await gate.enter(forever);
    await own.kill();
    const control = new AbortController();
    const leaves = gate.enter(control.signal);
    const stays = ask(gate);
    // Nobody waits longer than that for Redis to hear of a refusal; it is told all the same.
    await before.refused(1);
    control.abort(new Error('cancelled'));
    await expect(leaves).rejects.toThrow('cancelled');
    expect(stays.ticket).toBeNull();
    await own.start();
    await (await stays.entered).passed();
    await gate.close();
  });

  it('is let go when the gate closes while Redis is away', async () => {
    await using own = await startOwnRedis();
    const gate = await open({}, own.url);
    await own.kill();
    const waits = expect(gate.enter(forever)).rejects.toThrow('closed');
    await gate.close();
    await waits;
  });

  it('that left while Redis was frozen leaves no place taken', async () => {
    await using own = await startOwnRedis();
    const gate = await open({ tellMs: 50, quietMs: 0 }, own.url);
    await refuse(gate, 1);
    const other = await open({}, own.url);
    own.freeze();
    const control = new AbortController();
    const leaves = gate.enter(control.signal);
    control.abort(new Error('cancelled'));
    await expect(leaves).rejects.toThrow('cancelled');
    own.goOn();
    await (await other.enter(forever)).passed();
    await gate.close();
    await other.close();
  });
});

describe('a ticket', () => {
  it('counts once', async () => {
    const gate = await open();
    await refuse(gate, 1);
    const ticket = await gate.enter(forever);
    await ticket.passed();
    await ticket.refused(60_000);
    await ticket.left();
    await (await gate.enter(forever)).passed();
    expect(await redis.hget(key, 'passes')).toBe('2');
  });
});

it('a provider’s name must be one that can stand in a key', async () => {
  await expect(createCreationGate({ redisUrl: testRedisUrl(), prefix, provider: 'a b' })).rejects.toThrow(
    /provider must be/,
  );
});
