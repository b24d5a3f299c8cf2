import { randomBytes } from 'node:crypto';
import { inject } from 'vitest';

/** URL of the suite's Redis, in the form `REDIS_URL` takes. */
export function testRedisUrl(): string {
  return `unix://${inject('redisSocket')}`;
}

/** A prefix no other test has; one hash tag, as in production. */
export function freshPrefix(): string {
  return `{test-${randomBytes(6).toString('hex')}}`;
}
