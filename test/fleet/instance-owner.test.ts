import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { fleetRunId, leftoverOf, readFleetRunId } from '../../src/fleet/instance-owner.ts';

const name = fc.stringMatching(/^[A-Za-z0-9._-]{1,20}$/);
const pool = fc.stringMatching(/^[{}A-Za-z0-9:._-]{0,20}[}a-z]$/);

describe("an instance's owner", () => {
  it('is read back from its run id as it was written', () => {
    fc.assert(
      fc.property(
        fc.record({ pool, run_id: name, worker: name, nonce: name }),
        fc.integer({ min: 1, max: 100_000 }),
        (owner, ttl_seconds) => {
          const whole = { ...owner, episode_id: 'e', attempt: 1 };
          expect(readFleetRunId(fleetRunId({ owner: whole, ttl_seconds }))).toEqual({ owner, ttl_seconds });
        },
      ),
    );
  });

  it.each([
    null,
    undefined,
    '',
    'job-1',
    'rp:a:b',
    'rp:pool:run:worker:ttl:nonce',
    'rp::run:worker:60:nonce',
    'xx:p:r:w:60:n',
  ])('is nobody of ours for %j', (runId) => expect(readFleetRunId(runId)).toBeNull());

  it('lets it expire by its time of creation, in UTC where the service does not say', () => {
    const run_id = 'rp:{rollpool}:run:host-1-ab:900:n1';
    const expires_at = Date.UTC(2026, 0, 12, 9, 0, 0) + 900_000;
    for (const created_at of ['2026-01-12T09:00:00', '2026-01-12T09:00:00Z', '2026-01-12 10:00:00+01:00']) {
      expect(leftoverOf({ run_id, created_at })).toMatchObject({
        owner: { pool: '{rollpool}', run_id: 'run', worker: 'host-1-ab' },
        expires_at,
      });
    }
  });

  it('never lets one expire whose age is not told', () => {
    for (const created_at of [null, 'yesterday']) {
      expect(leftoverOf({ run_id: 'rp:p:r:w:9:n', created_at })?.expires_at).toBe(Infinity);
    }
  });
});
