import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { DeadlineExpired, holdAwareDeadline, phaseDeadline } from '../../src/episode/hold-clock.ts';

describe('deadlines', () => {
  beforeEach(() => void vi.useFakeTimers());
  afterEach(() => void vi.useRealTimers());

  it('fires after its seconds with a reason that names the phase', () => {
    using deadline = holdAwareDeadline('agent', 10, () => 0);
    vi.advanceTimersByTime(9_999);
    expect(deadline.signal.aborted).toBe(false);
    vi.advanceTimersByTime(2);
    expect(deadline.signal.reason).toBeInstanceOf(DeadlineExpired);
    expect(String(deadline.signal.reason)).toContain('agent took longer than 10 s');
  });

  it('does not count time that was held', () => {
    let held = 0;
    using deadline = holdAwareDeadline('agent', 10, () => held);
    vi.advanceTimersByTime(5_000);
    held = 7_000;
    vi.advanceTimersByTime(11_000);
    expect(deadline.signal.aborted).toBe(false);
    vi.advanceTimersByTime(1_001);
    expect(deadline.signal.aborted).toBe(true);
  });

  it('leaves no timer behind when disposed', () => {
    holdAwareDeadline('agent', 10, () => 0)[Symbol.dispose]();
    expect(vi.getTimerCount()).toBe(0);
  });

  it('ends with the outer signal too', () => {
    const outer = new AbortController();
    using deadline = phaseDeadline('boot', 10, outer.signal);
    outer.abort(new Error('cancelled'));
    expect(String(deadline.signal.reason)).toContain('cancelled');
  });
});
