import { spawn, type ChildProcess } from 'node:child_process';
import { once, setMaxListeners } from 'node:events';
import { fileURLToPath } from 'node:url';
import fc from 'fast-check';
import type { Redis } from 'ioredis';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { Place } from '../../../src/contracts/index.ts';
import { silentLogger } from '../../../src/observe/index.ts';
import { connectFailFast, queueNames } from '../../../src/queue/index.ts';
import {
  createPlaceLimit,
  type PlaceLimitOptions,
  type SharedPlaceLimit,
} from '../../../src/queue/control/index.ts';
import { startOwnRedis } from '../../support/own-redis.ts';
import { freshPrefix, testRedisUrl } from '../../support/redis.ts';
import { until } from '../../support/wait.ts';

const forever = new AbortController().signal;
setMaxListeners(0, forever);
const program = fileURLToPath(new URL('./hold-places.ts', import.meta.url));

let redis: Redis & AsyncDisposable;
let prefix: string;
let limits: SharedPlaceLimit[];
let children: ChildProcess[];

beforeEach(async () => {
  prefix = freshPrefix();
  redis = await connectFailFast({ redisUrl: testRedisUrl(), log: silentLogger });
  limits = [];
  children = [];
});
afterEach(async () => {
  for (const child of children) {
    if (child.exitCode !== null || child.signalCode !== null) continue;
    child.kill('SIGKILL');
    await once(child, 'exit');
  }
  for (const limit of limits) await limit.close();
  await redis[Symbol.asyncDispose]();
});

/** The limit as one more worker has it. */
async function open(options: Partial<PlaceLimitOptions> = {}): Promise<SharedPlaceLimit> {
  const limit = await createPlaceLimit({
    redisUrl: testRedisUrl(),
    prefix,
    provider: 'e2b',
    places: 1,
    createsPerSecond: null,
    ...options,
  });
  limits.push(limit);
  return limit;
}

interface Asked {
  place: Place | null;
  readonly taken: Promise<Place>;
}
function ask(limit: SharedPlaceLimit, signal: AbortSignal = forever): Asked {
  const asked: Asked = { place: null, taken: limit.take(signal).then((place) => (asked.place = place)) };
  return asked;
}

const key = (name: string): string => `${queueNames(prefix).places('e2b')}:${name}`;
const leased = (): Promise<number> => redis.zcard(key('leases'));
const inLine = (): Promise<number> => redis.zcard(key('line'));
/** Commands that Redis has answered so far. */
async function commands(client: Redis): Promise<number> {
  return Number(/total_commands_processed:(\d+)/.exec(await client.info('stats'))![1]);
}

function holder(redisUrl: string, places: number, wanted: number, leaseMs: number) {
  const args = [redisUrl, prefix, places, wanted, leaseMs].map(String);
  const child = spawn(process.execPath, ['--import', 'tsx', program, ...args], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  children.push(child);
  const seen = { held: 0 };
  child.stdout.on('data', (data: Buffer) => {
    seen.held += data.toString().split('\n').length - 1;
  });
  return { child, seen };
}

describe('places at once', () => {
  it('are never more than the limit over all workers, and each that is given back serves the next', async () => {
    const workers = [await open({ places: 3 }), await open({ places: 3 })];
    const asked = Array.from({ length: 10 }, (_, index) => ask(workers[index % 2]!));
    const freed = new Set<Place>();
    for (let served = 3; served <= 10; served++) {
      await until(
        () => asked.filter(({ place }) => place !== null).length === served,
        `${served} are served`,
      );
      expect(await leased()).toBe(3);
      const next = asked.find(({ place }) => place !== null && !freed.has(place))!.place!;
      freed.add(next);
      await next.release();
    }
    for (const { place } of asked) await place!.release();
    expect(await leased()).toBe(0);
  });

  it('are given to who has waited longest, whichever worker it is in', async () => {
    const workers = [await open(), await open(), await open()];
    const first = await workers[0]!.take(forever);
    const served: number[] = [];
    let held: Place = first;
    const asked: Promise<void>[] = [];
    for (const [index, worker] of [1, 2, 0, 2, 1, 0].entries()) {
      asked.push(
        workers[worker]!.take(forever).then((place) => {
          served.push(index);
          held = place;
        }),
      );
      const waiting = Math.min(3, index + 1);
      await until(async () => (await inLine()) === waiting, `${waiting} workers wait`);
      // Ages are told in milliseconds.
      const at = performance.now();
      await until(() => performance.now() - at > 30, 'the next is younger');
    }
    for (let count = 0; count <= 6; count++) {
      await until(() => served.length === count, `${count} are served`);
      await held.release();
    }
    await Promise.all(asked);
    expect(served).toEqual([0, 1, 2, 3, 4, 5]);
  });

  it('are not waited for any more by who gives up, and pass on when nobody takes them', async () => {
    const [one, two] = [await open(), await open()];
    const held = await one.take(forever);
    const quitter = new AbortController();
    const quit = ask(one, quitter.signal);
    await until(async () => (await inLine()) === 1, 'the first waits');
    const next = ask(two);
    await until(async () => (await inLine()) === 2, 'the second waits');
    quitter.abort(new Error('gave up'));
    await expect(quit.taken).rejects.toThrow('gave up');
    await held.release();
    await (await next.taken).release();
    await until(async () => (await inLine()) === 0, 'nobody stands in line');
    await expect(one.take(AbortSignal.abort(new Error('before')))).rejects.toThrow('before');
  });

  it('are not held up by a worker that died in line', async () => {
    const held = await (await open()).take(forever);
    const { child } = holder(testRedisUrl(), 1, 1, 60_000);
    await until(async () => (await inLine()) === 1, 'the other process waits');
    const next = ask(await open({ pace: { graceMs: 200, longestWaitMs: 300 } }));
    await until(async () => (await inLine()) === 2, 'this one waits behind it');
    child.kill('SIGKILL');
    await once(child, 'exit');
    await held.release();
    await (await next.taken).release();
  });

  it('of a worker that died come back by themselves, those of a living one do not', async () => {
    const { child, seen } = holder(testRedisUrl(), 3, 2, 1_500);
    const living = await open({ places: 3, pace: { leaseMs: 3_000 } });
    await until(() => seen.held === 2, 'the other process holds two');
    const mine = await living.take(forever);
    const more = ask(living);
    child.kill('SIGKILL');
    await once(child, 'exit');
    expect(more.place).toBeNull();
    await more.taken;
    expect(await leased()).toBeLessThanOrEqual(3);
    const at = performance.now();
    await until(() => performance.now() - at > 4_000, 'the lease would have run out without renewal');
    await until(async () => (await leased()) === 2, 'the living worker alone holds places');
    await mine.release();
    await more.place!.release();
  });

  it('are told to those in line without anybody asking again and again', async () => {
    await using own = await startOwnRedis();
    const client = await connectFailFast({ redisUrl: own.url, log: silentLogger });
    await using workers = {
      all: await Promise.all([1, 2, 3, 4, 5].map(() => open({ redisUrl: own.url, places: 1 }))),
      [Symbol.asyncDispose]: async () => {
        await Promise.all(workers.all.map((worker) => worker.close()));
        await client[Symbol.asyncDispose]();
      },
    };
    let held = await workers.all[0]!.take(forever);
    let served = 0;
    for (let waiter = 0; waiter < 500; waiter++) {
      void workers.all[waiter % 5]!.take(forever).then(
        (place) => {
          served += 1;
          held = place;
        },
        () => undefined,
      );
    }
    await until(async () => (await client.zcard(key('line'))) === 5, 'all workers wait');
    const before = await commands(client);
    const at = performance.now();
    await until(() => performance.now() - at > 1_000, 'a second has passed');
    expect((await commands(client)) - before).toBeLessThan(100);
    for (let count = 0; count < 50; count++) {
      await held.release();
      await until(() => served === count + 1, 'the next is served');
    }
  });
});

describe('new places in a second', () => {
  it('are spread evenly over all workers by the clock of Redis', async () => {
    const options = { places: null, createsPerSecond: 20 };
    const workers = [await open(options), await open(options), await open(options)];
    const [seconds, micros] = await redis.time();
    const start = Number(seconds) * 1_000 + Number(micros) / 1_000;
    await Promise.all(Array.from({ length: 24 }, (_, index) => workers[index % 3]!.take(forever)));
    // When one more could come: each of them has moved it by a twentieth of a second at least.
    expect(Number(await redis.hget(key('pace'), 'next_at')) - start).toBeGreaterThanOrEqual(24 * 50 - 1);
  });
});

describe('Redis away', () => {
  it('is waited for: nobody is lost, nobody gets what another holds', async () => {
    await using own = await startOwnRedis();
    const options = { redisUrl: own.url, places: 2 };
    const [one, two] = [await open(options), await open(options)];
    const held = [await one.take(forever), await two.take(forever)];
    await own.written();
    await own.kill();
    const asked = [ask(one), ask(two)];
    const freeing = held[0]!.release();
    await own.start();
    await freeing;
    const next = await Promise.race(asked.map(({ taken }) => taken));
    const client = await connectFailFast({ redisUrl: own.url, log: silentLogger });
    expect(await client.zcard(key('leases'))).toBe(2);
    await next.release();
    await Promise.all(asked.map(({ taken }) => taken));
    await client[Symbol.asyncDispose]();
    await Promise.all([one.close(), two.close()]);
  });

  it('and back without its memory, held places are counted again', async () => {
    const limit = await open({ places: 2, pace: { leaseMs: 300 } });
    const held = [await limit.take(forever), await limit.take(forever)];
    await redis.del(key('leases'));
    await until(async () => (await leased()) === 2, 'both are renewed');
    const more = ask(limit);
    await until(async () => (await inLine()) === 1, 'a third waits');
    await held[0]!.release();
    await more.taken;
    expect(await leased()).toBe(2);
  });
});

it('keeps to its limit whatever is taken, given back and given up', async () => {
  const step = fc.oneof(
    fc.record({ kind: fc.constant('take' as const), worker: fc.nat(2) }),
    fc.record({ kind: fc.constant('release' as const), which: fc.nat(20) }),
    fc.record({ kind: fc.constant('quit' as const), which: fc.nat(20) }),
  );
  await fc.assert(
    fc.asyncProperty(
      fc.integer({ min: 1, max: 4 }),
      fc.array(step, { minLength: 5, maxLength: 40 }),
      async (places, steps) => {
        prefix = freshPrefix();
        const workers = [await open({ places }), await open({ places }), await open({ places })];
        const held: Place[] = [];
        const waiting = new Set<AbortController>();
        const asked: Promise<void>[] = [];
        let most = 0;
        const take = async (worker: SharedPlaceLimit): Promise<void> => {
          const controller = new AbortController();
          waiting.add(controller);
          try {
            held.push(await worker.take(controller.signal));
            most = Math.max(most, held.length);
          } catch {
            // Given up.
          }
          waiting.delete(controller);
        };
        for (const one of steps) {
          if (one.kind === 'take') asked.push(take(workers[one.worker]!));
          else if (one.kind === 'release') await held.splice(one.which, 1)[0]?.release();
          else [...waiting][one.which]?.abort(new Error('gave up'));
          expect(await leased()).toBeLessThanOrEqual(places);
        }
        while (waiting.size > 0) {
          for (const place of held.splice(0)) await place.release();
          await new Promise((resolve) => setImmediate(resolve));
        }
        await Promise.all(asked);
        for (const place of held.splice(0)) await place.release();
        expect(most).toBeLessThanOrEqual(places);
        expect(await leased()).toBe(0);
        for (const limit of limits.splice(0)) await limit.close();
        expect(await inLine()).toBe(0);
      },
    ),
    { numRuns: 15 },
  );
});

it('lets who waits go when it closes, and keeps no turn for it', async () => {
  const [one, two] = [await open(), await open()];
  const held = await two.take(forever);
  const asked = ask(one);
  await until(async () => (await inLine()) === 1, 'it waits');
  const refused = expect(asked.taken).rejects.toThrow('closed');
  await one.close();
  await refused;
  await expect(one.take(forever)).rejects.toThrow('closed');
  expect(await inLine()).toBe(0);
  await held.release();
  await held.release();
  await (await two.take(forever)).release();
});
