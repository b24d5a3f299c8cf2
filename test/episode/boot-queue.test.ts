import { expect, test } from 'vitest';
import { BootQueue } from '../../src/episode/boot-queue.ts';

const never = new AbortController().signal;

test('boots at most so many at once, in order', async () => {
  const queue = new BootQueue(2);
  const order: number[] = [];
  let running = 0;
  let peak = 0;
  await Promise.all(
    [0, 1, 2, 3, 4].map((index) =>
      queue.run(async () => {
        peak = Math.max(peak, (running += 1));
        order.push(index);
        await new Promise((resolve) => setImmediate(resolve));
        running -= 1;
      }, never),
    ),
  );
  expect(peak).toBe(2);
  expect(order).toEqual([0, 1, 2, 3, 4]);
});

test('an abort ends the wait at once, and waits for a boot that has begun', async () => {
  const queue = new BootQueue(1);
  const controller = new AbortController();
  let finish = (): void => {};
  let finished = false;
  const first = queue.run(async () => {
    await new Promise<void>((resolve) => (finish = resolve));
    finished = true;
    throw controller.signal.reason;
  }, controller.signal);
  let begun = false;
  const second = queue.run(async () => (begun = true), controller.signal);
  let settled = false;
  void first.catch(() => (settled = true));
  controller.abort(new Error('cancelled by test'));
  await expect(second).rejects.toThrow('cancelled by test');
  expect(settled).toBe(false);
  finish();
  await expect(first).rejects.toThrow('cancelled by test');
  expect(finished).toBe(true);
  expect(begun).toBe(false);
  // Its place is free again.
  expect(await queue.run(async () => 'booted', never)).toBe('booted');
});

test('gives a failed boot back as it is, and goes on', async () => {
  const queue = new BootQueue(1);
  await expect(queue.run(() => Promise.reject(new Error('no place')), never)).rejects.toThrow('no place');
  expect(await queue.run(async () => 1, never)).toBe(1);
});
