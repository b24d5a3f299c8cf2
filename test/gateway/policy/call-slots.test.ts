import { describe, expect, test } from 'vitest';
import { CallSlots, type CallSlot } from '../../../src/gateway/policy/call-slots.ts';

const never = new AbortController().signal;

describe('slots of a replica', () => {
  test('are given at once while there are any, and then in turn: episode by episode, in order within one', async () => {
    const slots = new CallSlots(1);
    const first = slots.tryEnter()!;
    expect(slots.tryEnter()).toBeNull();
    const [many, few] = [{}, {}];
    const order: string[] = [];
    const enter = async (owner: object, name: string): Promise<void> => {
      using _slot = await slots.enter(owner, never);
      order.push(name);
    };
    const all = [
      enter(many, 'many-1'),
      enter(many, 'many-2'),
      enter(many, 'many-3'),
      enter(few, 'few-1'),
      enter(few, 'few-2'),
    ];
    expect([slots.taken, slots.waiting, slots.load]).toEqual([1, 5, 6]);
    first[Symbol.dispose]();
    await Promise.all(all);
    expect(order).toEqual(['many-1', 'few-1', 'many-2', 'few-2', 'many-3']);
    expect(slots.load).toBe(0);
  });

  test('are not waited for any more by a call that was ended', async () => {
    const slots = new CallSlots(1);
    using _taken = slots.tryEnter()!;
    const abort = new AbortController();
    const owner = {};
    const waiting = slots.enter(owner, abort.signal);
    abort.abort(new Error('over'));
    await expect(waiting).rejects.toThrow('over');
    await expect(slots.enter(owner, abort.signal)).rejects.toThrow('over');
    expect(slots.waiting).toBe(0);
  });

  test('of a replica that died send those who wait away, and end those who are there when told to', async () => {
    const slots = new CallSlots(1);
    using taken: CallSlot = slots.tryEnter()!;
    const reasons: Error[] = [];
    taken.onCut = (reason) => reasons.push(reason);
    const waiting = slots.enter({}, never);
    slots.turnAway();
    expect(await waiting).toBeNull();
    slots.cut(new Error('frozen'));
    expect(reasons).toEqual([new Error('frozen')]);
    expect(slots.load).toBe(1);
  });

  test('given back twice let in one only', async () => {
    const slots = new CallSlots(1);
    const first = slots.tryEnter()!;
    const waiting = [slots.enter({}, never), slots.enter({}, never)];
    first[Symbol.dispose]();
    first[Symbol.dispose]();
    const second = await waiting[0];
    expect([slots.taken, slots.waiting]).toEqual([1, 1]);
    second![Symbol.dispose]();
    (await waiting[1])![Symbol.dispose]();
    expect(slots.load).toBe(0);
  });

  test('without a limit are never waited for', () => {
    const slots = new CallSlots(Infinity);
    for (let call = 0; call < 1_000; call++) expect(slots.tryEnter()).not.toBeNull();
    expect(slots.taken).toBe(1_000);
  });
});
