import { describe, expect, it } from 'vitest';
import { createStartGate } from '../../src/agents/index.ts';

const never = new AbortController().signal;

describe('the start gate', () => {
  it('lets as many in as it has places, and the next when one leaves', async () => {
    const gate = createStartGate(2);
    const inside: number[] = [];
    const enter = async (name: number): Promise<() => void> => {
      const leave = await gate.enter(never);
      inside.push(name);
      return leave;
    };
    const leaves = [await enter(1), await enter(2)];
    const third = enter(3);
    const fourth = enter(4);
    await new Promise(setImmediate);
    expect(inside).toEqual([1, 2]);
    leaves[0]?.();
    leaves[0]?.();
    const leaveThird = await third;
    await new Promise(setImmediate);
    expect(inside).toEqual([1, 2, 3]);
    leaveThird();
    (await fourth)();
    expect(inside).toEqual([1, 2, 3, 4]);
  });

  it('gives an aborted waiter the reason and its place in the line to the next', async () => {
    const gate = createStartGate(1);
    const leave = await gate.enter(never);
    const controller = new AbortController();
    const waiting = gate.enter(controller.signal);
    const next = gate.enter(never);
    const reason = new Error('cancelled');
    controller.abort(reason);
    await expect(waiting).rejects.toBe(reason);
    await expect(gate.enter(controller.signal)).rejects.toBe(reason);
    leave();
    (await next)();
  });

  it('lets starts that an episode waits for go before those ahead of one', async () => {
    const gate = createStartGate(1);
    const leave = await gate.enter(never);
    const order: string[] = [];
    const starts = (['ahead', undefined, 'ahead', undefined] as const).map(async (ahead) => {
      const gone = await gate.enter(never, ahead);
      order.push(ahead ?? 'episode');
      gone();
    });
    leave();
    await Promise.all(starts);
    expect(order).toEqual(['episode', 'episode', 'ahead', 'ahead']);
  });
});
