import fc from 'fast-check';
import { afterEach, describe, expect, test, vi } from 'vitest';
import { silentLogger } from '../../src/observe/index.ts';
import { DiskWatch, nextLookMs } from '../../src/sandbox/docker/disk-watch.ts';

const look = fc.record({
  costMs: fc.double({ min: 0.1, max: 60_000, noNaN: true }),
  grownBytes: fc.integer({ min: -(2 ** 40), max: 2 ** 40 }),
  elapsedMs: fc.double({ min: 1, max: 60_000, noNaN: true }),
  leftBytes: fc.integer({ min: 0, max: 2 ** 40 }),
  restMs: fc.integer({ min: 250, max: 10_000 }),
});

describe('when the disk of a sandbox is looked at next', () => {
  test('it is never longer than ten seconds, nor sooner than a quarter of one', () => {
    fc.assert(
      fc.property(look, (found) => {
        expect(nextLookMs(found)).toBeLessThanOrEqual(10_000);
        expect(nextLookMs(found)).toBeGreaterThanOrEqual(250);
      }),
    );
  });

  test('where nothing grows, looking costs at most two hundredths of the time, up to ten seconds', () => {
    fc.assert(
      fc.property(look, (found) => {
        const rest = nextLookMs({ ...found, grownBytes: 0 });
        expect(rest).toBeGreaterThanOrEqual(Math.min(10_000, 50 * found.costMs));
      }),
    );
  });

  test('what grows is looked at before it can be at its limit, if looking is cheap', () => {
    fc.assert(
      fc.property(look, (found) => {
        const grown = Math.abs(found.grownBytes) + 1;
        const untilFullMs = (found.leftBytes / grown) * found.elapsedMs;
        fc.pre(untilFullMs > 500);
        expect(nextLookMs({ ...found, grownBytes: grown, costMs: 1 })).toBeLessThan(untilFullMs);
      }),
    );
  });

  test('a still sandbox is looked at more and more rarely', () => {
    const still = { costMs: 2, grownBytes: 0, elapsedMs: 1, leftBytes: 1 };
    const rests = [1_000];
    for (let index = 0; index < 5; index++) rests.push(nextLookMs({ ...still, restMs: rests.at(-1)! }));
    expect(rests).toEqual([1_000, 2_000, 4_000, 8_000, 10_000, 10_000]);
  });
});

describe('the watch', () => {
  afterEach(() => void vi.useRealTimers());

  function open(sizes: (number | null | Error)[]) {
    vi.useFakeTimers();
    const ended: number[] = [];
    let looks = 0;
    const watch = new DiskWatch({
      limitBytes: 100,
      measure: async () => {
        const size = sizes[Math.min(looks++, sizes.length - 1)]!;
        if (size instanceof Error) throw size;
        return size;
      },
      onOver: async () => void ended.push(looks),
      log: silentLogger,
    });
    return { watch, ended, looks: () => looks };
  }

  test('looks a second after something began, and no more once all has ended', async () => {
    const { watch, looks } = open([10]);
    const end = watch.begin();
    await vi.advanceTimersByTimeAsync(999);
    expect(looks()).toBe(0);
    end();
    await vi.advanceTimersByTimeAsync(60_000);
    expect(looks()).toBe(1);
    await watch.stop();
  });

  test('ends who wrote too much, and lets those who come after write as much again', async () => {
    const { watch, ended } = open([150, 160, 200, 261]);
    watch.begin();
    await vi.advanceTimersByTimeAsync(1_000);
    expect([watch.over, ended]).toEqual([true, [1]]);
    await vi.advanceTimersByTimeAsync(60_000);
    expect(ended.slice(0, 2)).toEqual([1, 4]);
    await watch.stop();
  });

  test('takes what cannot be counted for too much, and a daemon that fails for nothing', async () => {
    const uncounted = open([null, 10]);
    uncounted.watch.begin();
    await vi.advanceTimersByTimeAsync(1_000);
    expect(uncounted.watch.over).toBe(true);
    await uncounted.watch.stop();
    const failing = open([new Error('away'), 10]);
    failing.watch.begin();
    await vi.advanceTimersByTimeAsync(60_000);
    expect([failing.watch.over, failing.looks() > 1]).toEqual([false, true]);
    await failing.watch.stop();
  });
});
