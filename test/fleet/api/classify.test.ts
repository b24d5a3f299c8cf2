import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { refusal } from '../../../src/fleet/api/classify.ts';
import { retryAfterMs } from '../../../src/fleet/api/retry-after.ts';

const now = Date.UTC(2026, 0, 1);

function of(status: number, detail: unknown, retryAfter: string | null = null) {
  return refusal(
    'POST http://fleet/v1/env/instances',
    { status, retryAfter, text: JSON.stringify({ detail }) },
    now,
  );
}

describe('the kind of a refusal', () => {
  it.each([
    [401, 'Invalid API key', 'authentication', false],
    [403, 'Team not found', 'team_not_found', false],
    [403, "Team does not have permission for environment 'booking'", 'environment_access', false],
    [403, 'Forbidden', 'permission', false],
    [
      403,
      'Instance limit reached. You have 5 running instances out of a maximum of 10.',
      'instance_limit',
      true,
    ],
    [400, 'Region mars-1 not supported. Please use ["us-west-1"]', 'region', false],
    [400, 'unsupported region', 'region', false],
    [400, "Environment 'nope' not found", 'environment_not_found', false],
    [400, "env_key 'nope' not found", 'environment_not_found', false],
    [400, "Environment 'version conversion' not found", 'environment_not_found', false],
    [400, 'Environment conversion not found', 'environment_not_found', false],
    [400, "Version 'v9' not found for environment 'booking'", 'version_not_found', false],
    [400, 'ttl_seconds must be positive', 'bad_request', false],
    [422, [{ loc: ['body', 'env_key'], msg: 'field required' }], 'bad_request', false],
    [404, 'Instance not found', 'not_found', false],
    [409, 'Resource exists', 'conflict', false],
    [429, 'Slow down', 'rate_limit', true],
    [400, 'Too many in-flight instance creations for this team', 'rate_limit', true],
    [503, 'upstream rate limit', 'rate_limit', true],
    [500, 'oops', 'server', true],
    [501, 'not here', 'server', false],
    [502, 'bad gateway', 'server', true],
    [418, 'teapot', 'api', false],
  ] as const)('%i "%s" is %s', (status, detail, kind, transient) => {
    expect(of(status, detail)).toMatchObject({ kind, transient, status });
  });

  it('is an instance limit by its error type, with its numbers', () => {
    const detail = {
      error_type: 'instance_limit_exceeded',
      message: 'No more.',
      running_instances: 7,
      instance_limit: 7,
    };
    expect(of(400, detail)).toMatchObject({
      kind: 'instance_limit',
      running_instances: 7,
      instance_limit: 7,
      words: 'No more.',
    });
  });

  it('reads the numbers of an instance limit from its words', () => {
    const error = of(
      403,
      'Instance limit. You have 12 running instances out of a maximum of 10. Delete some.',
    );
    expect(error).toMatchObject({ running_instances: 12, instance_limit: 10 });
  });

  it.each([
    'health check failed',
    'connection reset',
    'Timeout while waiting',
    'temporarily out of capacity',
  ])('passes with time when a 400 says "%s"', (words) =>
    expect(of(400, words)).toMatchObject({ kind: 'bad_request', transient: true }),
  );

  it('does not take the name of an environment for a failure that passes', () => {
    expect(of(400, "Environment 'connection-timeout' not found").transient).toBe(false);
  });

  it('lets "retryable" in the body win over status and words', () => {
    expect(of(400, { error: 'seed_placement_failed', retryable: true }).transient).toBe(true);
    expect(of(503, { error: 'health check', retryable: false }).transient).toBe(false);
    const driver = 'Driver API returned 400: {"detail":{"error":"seed_placement_failed","retryable":true}}';
    expect(of(400, driver).transient).toBe(true);
    expect(of(500, driver.replace('true', 'false')).transient).toBe(false);
  });

  it('has the server words on one line, bounded', () => {
    const error = of(400, `a\n  b ${'x'.repeat(100_000)}`);
    expect(error.words.startsWith('a b x')).toBe(true);
    expect(error.message.length).toBeLessThan(1_200);
  });

  it("takes a proxy's page for its title", () => {
    const text = '<html><head><title>502 Bad\nGateway</title></head><body><h1>nginx</h1></body></html>';
    const error = refusal('GET http://fleet/x', { status: 502, retryAfter: '7', text }, now);
    expect(error.message).toBe('GET http://fleet/x answered 502: 502 Bad Gateway');
    expect(error).toMatchObject({ kind: 'server', transient: true, retry_after_ms: 7_000 });
  });

  it('takes any body at all', () => {
    fc.assert(
      fc.property(fc.integer({ min: 300, max: 599 }), fc.oneof(fc.string(), fc.json()), (status, text) => {
        const error = refusal('GET http://fleet/x', { status, retryAfter: null, text }, now);
        expect(error.message).toContain(`answered ${status}`);
      }),
    );
  });
});

describe('Retry-After', () => {
  it.each([
    ['3', 3_000],
    ['0.5', 500],
    [' 12 ', 12_000],
    [new Date(now + 90_000).toUTCString(), 90_000],
    [new Date(now - 90_000).toUTCString(), 0],
    ['soon', null],
    ['-5', null],
    ['', null],
    [null, null],
  ])('%j is %j ms', (header, ms) => expect(retryAfterMs(header, now)).toBe(ms));
});
