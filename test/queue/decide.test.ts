import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { EpisodeError } from '../../src/contracts/index.ts';
import { parseRedisUrl, redactRedisUrl } from '../../src/queue/index.ts';
import { bullPriority } from '../../src/queue/priority.ts';
import { decide, retryDelay, type AttemptEnd } from '../../src/queue/worker/decide.ts';
import { resultSummary } from '../support/result-summary.ts';

const good = { output: { summary: resultSummary(), payload: null } };
const failure = { class: 'infra', phase: 'boot', code: 'gone', message: 'gone', retryable: true } as const;
const bad = { output: { summary: resultSummary({ failure, reward: null }), payload: null } };
const broken = { error: new Error('broken') };
const task = {
  error: new EpisodeError({ class: 'task', phase: 'setup', code: 'no_bash', message: 'no bash' }),
};

const end = (more: Partial<AttemptEnd>): AttemptEnd => ({
  outcome: good,
  cause: null,
  attempt: 1,
  maxAttempts: 4,
  now: 1_000,
  deadline_at: undefined,
  retryDelayMs: 100,
  ...more,
});

describe('after an attempt', () => {
  it.each([
    ['a result is published', end({}), 'publish'],
    ['a result that came although the lock was lost is published', end({ cause: 'lock_lost' }), 'publish'],
    ['a result that came during a hand-off is published', end({ cause: 'handoff' }), 'publish'],
    ['an infra failure is tried again', end({ outcome: bad }), 'retry'],
    ['an unknown error is tried again', end({ outcome: broken }), 'retry'],
    ['an infra failure at the cap is published', end({ outcome: bad, attempt: 4 }), 'publish'],
    ['an unknown error at the cap gives null', end({ outcome: broken, attempt: 4 }), 'publish_null'],
    ['no retry goes past the deadline', end({ outcome: broken, deadline_at: 1_050 }), 'publish_null'],
    ['a task failure is not tried again', end({ outcome: task }), 'publish_null'],
    ['a hand-off puts it back', end({ outcome: broken, cause: 'handoff' }), 'hand_off'],
    ['a twin leaves it alone', end({ outcome: broken, cause: 'twin' }), 'drop'],
    ['a lost lock leaves it alone', end({ outcome: broken, cause: 'lock_lost' }), 'drop'],
    ['a cancel gives null', end({ outcome: broken, cause: 'cancelled' }), 'publish_null'],
    ['a cancel wins over a result', end({ cause: 'cancelled' }), 'publish_null'],
  ])('%s', (_what, given, expected) => {
    expect(decide(given).do).toBe(expected);
  });

  it('nothing is ever tried again at the cap, and nothing of another owner is published as null', () => {
    fc.assert(
      fc.property(
        fc.constantFrom(good, bad, broken, task),
        fc.constantFrom(null, 'cancelled', 'expired', 'stale', 'lock_lost', 'twin', 'handoff', 'shutdown'),
        fc.integer({ min: 1, max: 6 }),
        fc.option(fc.integer({ min: 0, max: 2_000 }), { nil: undefined }),
        (outcome, cause, attempt, deadline_at) => {
          const decision = decide(end({ outcome, cause, attempt, deadline_at })).do;
          if (attempt >= 4) expect(decision).not.toBe('retry');
          if (cause === 'twin' || cause === 'lock_lost') expect(['publish', 'drop']).toContain(decision);
          if (cause === null) expect(['publish', 'publish_null', 'retry']).toContain(decision);
        },
      ),
    );
  });

  it('retries later and later, up to a bound', () => {
    expect([1, 2, 3, 4, 5].map((attempt) => retryDelay(attempt, 5_000, 60_000, 0.5))).toEqual([
      5_000, 10_000, 20_000, 40_000, 60_000,
    ]);
  });
});

describe('priority', () => {
  it('is sooner when higher, within what BullMQ takes', () => {
    fc.assert(
      fc.property(fc.integer(), fc.integer(), (a, b) => {
        expect(bullPriority(a)).toBeGreaterThan(0);
        expect(bullPriority(a)).toBeLessThan(2 ** 21);
        if (a > b) expect(bullPriority(a)).toBeLessThanOrEqual(bullPriority(b));
      }),
    );
    expect(bullPriority(1)).toBeLessThan(bullPriority(0));
  });
});

describe('REDIS_URL', () => {
  it('may be a host, a host with TLS, or a socket', () => {
    expect(parseRedisUrl('redis://u:p%40@h:1/2')).toEqual({
      host: 'h',
      port: 1,
      db: 2,
      username: 'u',
      password: 'p@',
    });
    expect(parseRedisUrl('rediss://h')).toEqual({ host: 'h', port: 6379, db: 0, tls: {} });
    expect(parseRedisUrl('redis://[::1]:7')).toMatchObject({ host: '::1', port: 7 });
    expect(parseRedisUrl('unix:///run/r.sock?db=3')).toEqual({ path: '/run/r.sock', db: 3 });
  });

  it.each(['http://h', 'nonsense', 'unix://', 'redis://h/x'])('is refused by name when it is %s', (url) => {
    expect(() => parseRedisUrl(url)).toThrow(/^REDIS_URL/);
  });

  it('is shown without its password', () => {
    expect(redactRedisUrl('redis://u:secret@h/0')).toBe('redis://u:***@h/0');
    expect(redactRedisUrl('unix:///s?password=secret')).not.toContain('secret');
  });
});
