import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { CallClock } from '../../../src/gateway/calls/call-clock.ts';
import { UnionClock } from '../../../src/gateway/calls/union-clock.ts';

beforeEach(() => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance'] });
});
afterEach(() => {
  vi.useRealTimers();
});

const pass = (ms: number): void => void vi.advanceTimersByTime(ms);
const clocks = (): { model: UnionClock; hold: UnionClock } => ({
  model: new UnionClock(),
  hold: new UnionClock(),
});

describe('a call’s clock', () => {
  test('counts time that is not held towards the turn, and held time apart', () => {
    const shared = clocks();
    const clock = new CallClock({ turnMs: 1000, holdMs: 5000 }, shared);
    pass(100);
    clock.hold('paused');
    pass(3000);
    clock.hold('unreachable');
    clock.release('paused');
    pass(1000);
    clock.release('unreachable');
    pass(50);
    clock.stop();
    pass(500);
    expect([clock.activeMs, clock.heldMs]).toEqual([150, 4000]);
    expect([shared.model.ms, shared.hold.ms]).toEqual([150, 4000]);
    expect(clock.signal.aborted).toBe(false);
  });

  test('aborts when the turn’s time is used up, holds not counted', () => {
    const clock = new CallClock({ turnMs: 1000, holdMs: 5000 }, clocks());
    pass(900);
    clock.hold('paused');
    pass(4000);
    clock.release('paused');
    pass(99);
    expect(clock.signal.aborted).toBe(false);
    pass(1);
    expect(clock.signal.reason).toMatchObject({ deadline: 'turn' });
    clock.stop();
  });

  test('aborts when it was held too long, over all its holds', () => {
    const clock = new CallClock({ turnMs: 1000, holdMs: 5000 }, clocks());
    for (const ms of [3000, 2000]) {
      clock.hold('unreachable');
      pass(ms);
      clock.release('unreachable');
    }
    expect(clock.signal.reason).toMatchObject({ deadline: 'hold' });
    clock.stop();
  });
});

test('overlapping intervals count once', () => {
  const union = new UnionClock();
  union.enter();
  pass(10);
  union.enter();
  pass(10);
  union.leave();
  pass(10);
  union.leave();
  pass(100);
  union.enter();
  pass(5);
  expect(union.ms).toBe(35);
});
