import { describe, expect, it } from 'vitest';
import { FleetApiError } from '../../../src/fleet/api/api-error.ts';
import { withRetries, type RetryPolicy } from '../../../src/fleet/api/retry.ts';

const policy: RetryPolicy = { attempts: 4, base_ms: 1, longest_ms: 4, total_ms: 30_000 };
const passing = (retry_after_ms: number | null = null): FleetApiError =>
  new FleetApiError('later', { kind: 'server', transient: true, retry_after_ms });
const lasting = new FleetApiError('never', { kind: 'bad_request', transient: false });
const missing = new FleetApiError('not there', { kind: 'not_found', transient: false });

/** Fails with these in order, then gives how often it was called. */
function failing(...errors: Error[]): () => Promise<number> {
  let calls = 0;
  return async () => {
    const error = errors[calls++];
    if (error !== undefined) throw error;
    return calls;
  };
}

describe('trying again', () => {
  it('repeats what passes', async () => {
    expect(await withRetries(failing(passing(), passing(), passing()), policy)).toBe(4);
  });

  it('gives up with the last error when no try is left', async () => {
    const last = passing();
    const run = failing(passing(), passing(), passing(), last);
    await expect(withRetries(run, policy)).rejects.toBe(last);
  });

  it('does not repeat what lasts, nor an error that is none of the API', async () => {
    await expect(withRetries(failing(lasting), policy)).rejects.toBe(lasting);
    const bug = new TypeError('bug');
    await expect(withRetries(failing(bug), policy)).rejects.toBe(bug);
  });

  it('repeats a 404 only where it may be too early', async () => {
    await expect(withRetries(failing(missing), policy)).rejects.toBe(missing);
    expect(await withRetries(failing(missing), { ...policy, retryNotFound: true })).toBe(2);
  });

  it('waits as long as the server asks', async () => {
    const started = performance.now();
    await withRetries(failing(passing(120)), policy);
    expect(performance.now() - started).toBeGreaterThanOrEqual(115);
  });

  it('does not start a wait that would end too late', async () => {
    const asked = passing(60_000);
    const started = performance.now();
    await expect(withRetries(failing(asked), policy)).rejects.toBe(asked);
    expect(performance.now() - started).toBeLessThan(5_000);
  });

  it('ends in the middle of a wait when the signal fires', async () => {
    const stop = new AbortController();
    const reason = new Error('cancelled');
    const waiting = withRetries(
      async () => {
        setImmediate(() => stop.abort(reason));
        throw passing(20_000);
      },
      policy,
      stop.signal,
    );
    await expect(waiting).rejects.toBe(reason);
  });
});
