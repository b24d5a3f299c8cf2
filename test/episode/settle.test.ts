import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { settle } from '../../src/episode/settle.ts';

describe('waiting for an agent', () => {
  beforeEach(() => void vi.useFakeTimers());
  afterEach(() => void vi.useRealTimers());

  it('gives what it gives, and leaves no timer', async () => {
    await expect(settle(Promise.resolve(7), new AbortController().signal, 60)).resolves.toBe(7);
    expect(vi.getTimerCount()).toBe(0);
  });

  it('lets one that was told to end do so in its own way', async () => {
    const controller = new AbortController();
    const running = new Promise((_resolve, reject) =>
      controller.signal.addEventListener('abort', () => setTimeout(() => reject(new Error('killed')), 1_000)),
    );
    const settled = expect(settle(running, controller.signal, 60)).rejects.toThrow('killed');
    controller.abort();
    await vi.advanceTimersByTimeAsync(1_000);
    await settled;
    expect(vi.getTimerCount()).toBe(0);
  });

  it('gives up one that hangs after it was told to end', async () => {
    const controller = new AbortController();
    const settled = expect(settle(new Promise(() => {}), controller.signal, 60)).rejects.toMatchObject({
      failure: { class: 'infra', code: 'agent_stuck', retryable: true },
    });
    controller.abort();
    await vi.advanceTimersByTimeAsync(60_000);
    await settled;
  });
});
