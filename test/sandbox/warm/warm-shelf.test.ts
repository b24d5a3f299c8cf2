import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { WarmShelf } from '../../../src/sandbox/warm/warm-shelf.ts';
import { FakeItems, type FakeItem } from './fake-items.ts';

/** Lets everything that waits for nothing but its turn come to an end. */
const calm = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

interface Stage extends AsyncDisposable {
  readonly shelf: WarmShelf<FakeItem>;
  readonly items: FakeItems;
  now: number;
}

function stage(capacity: number, slow: boolean, fillAfter = 1): Stage {
  const items = new FakeItems(slow);
  const made: Stage = {
    items,
    now: 0,
    shelf: new WarmShelf<FakeItem>({ capacity, fillAfter, clock: () => made.now }),
    [Symbol.asyncDispose]: async () => {
      const gone = made.shelf[Symbol.asyncDispose]();
      while (items.making.length > 0 || items.removing.length > 0) {
        for (const { done } of [...items.making]) done();
        for (const done of items.removing.splice(0)) done();
        await calm();
      }
      await gone;
      expect(items.count).toBe(0);
    },
  };
  return made;
}

describe('a shelf of sandboxes', () => {
  test('makes one ahead of what is asked for, and gives it out once', async () => {
    await using on = stage(2, false);
    expect(await on.shelf.take('a')).toBeNull();
    on.shelf.asked('a', on.items.make('a'));
    await on.shelf.settled();
    const item = await on.shelf.take('a');
    expect(item).toMatchObject({ key: 'a', id: 1 });
    await on.shelf.settled();
    const next = await on.shelf.take('a');
    expect(next).toMatchObject({ key: 'a', id: 2 });
    expect(await on.shelf.take('b')).toBeNull();
    for (const taken of [item, next]) await taken![Symbol.asyncDispose]();
  });

  test('makes none of what was asked for only once', async () => {
    await using on = stage(2, false, 2);
    on.shelf.asked('a', on.items.make('a'));
    await on.shelf.settled();
    expect(on.items.made).toBe(0);
    on.shelf.asked('a', on.items.make('a'));
    await on.shelf.settled();
    expect(on.shelf.waiting('a')).toBe(2);
  });

  test('makes nothing while somebody waits, and two at once then', async () => {
    await using on = stage(5, true);
    const busy = on.shelf.busy();
    for (let time = 0; time < 5; time++) on.shelf.asked('a', on.items.make('a'));
    await calm();
    expect(on.items.making).toHaveLength(0);
    busy[Symbol.dispose]();
    busy[Symbol.dispose]();
    await calm();
    expect(on.items.making).toHaveLength(2);
    on.items.making[0]!.done();
    await calm();
    expect(on.items.making).toHaveLength(2);
    expect(on.shelf.waiting('a')).toBe(1);
  });

  test('gives no sick one out, and removes it', async () => {
    await using on = stage(3, false);
    for (let time = 0; time < 3; time++) on.shelf.asked('a', on.items.make('a'));
    await on.shelf.settled();
    on.items.sick.add(1).add(2);
    const taken = await on.shelf.take('a');
    expect(taken?.id).toBe(3);
    await on.shelf.settled();
    expect(on.items.removed).toBe(2);
    await taken![Symbol.asyncDispose]();
  });

  test('finds a sick one by itself', async () => {
    await using on = stage(1, false);
    on.shelf.asked('a', on.items.make('a'));
    await on.shelf.settled();
    on.items.sick.add(1);
    on.now = 20_000;
    on.shelf.turn();
    await on.shelf.settled();
    expect(on.items.removed).toBe(1);
    expect((await on.shelf.take('a'))?.id).toBe(2);
    on.items.living.clear();
  });

  test('waits before it tries again what could not be made, longer each time', async () => {
    await using on = stage(1, true);
    on.shelf.asked('a', on.items.make('a'));
    const attempts: number[] = [];
    for (let second = 0; second < 200; second++) {
      on.now = second * 1_000;
      on.shelf.asked('a', on.items.make('a'));
      await calm();
      if (on.items.making.length > 0) attempts.push(second);
      for (const { fail } of [...on.items.making]) fail();
      await calm();
    }
    expect(attempts).toEqual([0, 30, 90]);
  });

  test('removes what has waited for its time, and what nobody asks for any more', async () => {
    await using on = stage(1, false);
    on.shelf.asked('a', on.items.make('a', 60_000));
    await on.shelf.settled();
    on.now = 60_000;
    on.shelf.turn();
    await on.shelf.settled();
    expect([on.items.removed, on.shelf.waiting('a')]).toEqual([1, 1]);
    on.now = 1_000_000;
    on.shelf.turn();
    await on.shelf.settled();
    expect([on.items.removed, on.shelf.size]).toEqual([2, 0]);
  });

  test('gives the place of one kind to another that is asked for more, after a while', async () => {
    await using on = stage(2, false);
    for (let time = 0; time < 4; time++) on.shelf.asked('a', on.items.make('a'));
    await on.shelf.settled();
    for (let time = 0; time < 9; time++) on.shelf.asked('b', on.items.make('b'));
    await on.shelf.settled();
    expect([on.shelf.waiting('a'), on.shelf.waiting('b')]).toEqual([2, 0]);
    on.now = 31_000;
    on.shelf.turn();
    await on.shelf.settled();
    expect([on.shelf.waiting('a'), on.shelf.waiting('b')]).toEqual([0, 2]);
  });

  test('makes nothing more and keeps nothing once it is drained', async () => {
    await using on = stage(3, true);
    for (let time = 0; time < 3; time++) on.shelf.asked('a', on.items.make('a'));
    await calm();
    on.items.making[0]!.done();
    await calm();
    on.shelf.drain();
    expect(await on.shelf.take('a')).toBeNull();
    on.shelf.asked('a', on.items.make('a'));
    await calm();
    expect(on.items.removing).toHaveLength(1);
    for (const { done } of [...on.items.making]) done();
    await calm();
    expect(on.shelf.waiting('a')).toBe(0);
    expect(on.items.removing).toHaveLength(3);
  });

  test('holds its bounds whatever happens in whatever order', async () => {
    const step = fc.oneof(
      fc.record({ do: fc.constant('ask' as const), key: fc.constantFrom('a', 'b', 'c') }),
      fc.record({ do: fc.constant('take' as const), key: fc.constantFrom('a', 'b', 'c') }),
      fc.record({ do: fc.constantFrom('made' as const, 'fail' as const), which: fc.nat(3) }),
      fc.record({ do: fc.constantFrom('gone' as const, 'sicken' as const), which: fc.nat(3) }),
      fc.record({ do: fc.constant('pass' as const), ms: fc.integer({ min: 1, max: 400_000 }) }),
      fc.record({ do: fc.constantFrom('busy' as const, 'free' as const, 'drain' as const) }),
    );
    await fc.assert(
      fc.asyncProperty(fc.nat(4), fc.array(step, { maxLength: 60 }), async (capacity, steps) => {
        await using on = stage(capacity, true);
        const { items, shelf } = on;
        const taken = new Map<number, FakeItem>();
        const waiting: Disposable[] = [];
        let drained = false;
        for (const next of steps) {
          const before = items.making.length;
          const wasSick = new Set(items.sick);
          switch (next.do) {
            case 'ask':
              shelf.asked(next.key, items.make(next.key));
              break;
            case 'take': {
              const item = await shelf.take(next.key);
              if (item === null) break;
              expect(item.key).toBe(next.key);
              expect(taken.has(item.id)).toBe(false);
              expect(wasSick.has(item.id)).toBe(false);
              taken.set(item.id, item);
              items.living.delete(item);
              break;
            }
            case 'made':
              items.making[next.which]?.done();
              break;
            case 'fail':
              items.making[next.which]?.fail();
              break;
            case 'gone':
              items.removing.splice(next.which, 1)[0]?.();
              break;
            case 'sicken': {
              const item = [...items.living][next.which];
              if (item !== undefined) items.sick.add(item.id);
              break;
            }
            case 'pass':
              on.now += next.ms;
              shelf.turn();
              break;
            case 'busy':
              waiting.push(shelf.busy());
              break;
            case 'free':
              waiting.pop()?.[Symbol.dispose]();
              break;
            case 'drain':
              shelf.drain();
              drained = true;
          }
          await calm();
          expect(items.count).toBeLessThanOrEqual(capacity);
          expect(shelf.size).toBe(items.count);
          expect(items.making.length).toBeLessThanOrEqual(2);
          if (waiting.length > 0 || drained) expect(items.making.length).toBeLessThanOrEqual(before);
        }
        for (const one of waiting) one[Symbol.dispose]();
      }),
      { numRuns: 200 },
    );
  });
});
