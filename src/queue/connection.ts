import { Redis } from 'ioredis';
import type { Logger } from '../observe/index.ts';
import { parseRedisUrl, redactRedisUrl, type RedisOptions } from './redis-url.ts';

export { parseRedisUrl, redactRedisUrl } from './redis-url.ts';

/** Redis could not be reached, or refused us, within the time given. Its message is one line for people. */
export class RedisUnreachableError extends Error {
  readonly code = 'redis_unreachable';
  constructor(redisUrl: string, cause: unknown) {
    super(`cannot reach Redis at ${redactRedisUrl(redisUrl)}: ${describe(cause)}`, { cause });
    this.name = 'RedisUnreachableError';
  }
}

function describe(cause: unknown): string {
  if (cause instanceof AggregateError) return cause.errors.map(describe).join('; ');
  // Redis answers with two lines on protocol versions.
  if (cause instanceof Error && cause.message.startsWith('NOAUTH')) return 'it wants a password (NOAUTH)';
  return cause instanceof Error ? cause.message : String(cause);
}

export interface ConnectOptions {
  readonly redisUrl: string;
  readonly log: Logger;
  /** Longest pause between two attempts to reconnect, milliseconds. Default: 2000. */
  readonly reconnectMs?: number;
  /** Shows in CLIENT LIST. */
  readonly name?: string;
}

function options(given: ConnectOptions): RedisOptions & { retryStrategy: (times: number) => number } {
  const longest = given.reconnectMs ?? 2_000;
  return {
    ...parseRedisUrl(given.redisUrl),
    lazyConnect: true,
    ...(given.name === undefined ? {} : { connectionName: given.name }),
    // Quick at first: most losses of a connection are restarts of a proxy.
    retryStrategy: (times) => Math.min(longest, 50 * 2 ** Math.min(times, 10)),
    // A replica that was promoted answers READONLY on old connections until they are made anew.
    reconnectOnError: (error) => (error.message.startsWith('READONLY') ? 2 : false),
  };
}

function listen(redis: Redis, log: Logger): Redis {
  // An `error` event without a listener ends the process. Repeats within an outage say nothing new.
  let last = '';
  redis.on('error', (error: Error) => {
    if (error.message !== last) log.warn({ err: error.message }, 'redis connection');
    last = error.message;
  });
  redis.on('ready', () => {
    last = '';
  });
  return redis;
}

/**
 * A connection for workers: commands wait for Redis to come back, however long it takes. It is connected when the
 * promise resolves; the first connect fails fast like `connectFailFast`, so that a wrong address is told at start.
 */
export async function connectPatient(given: ConnectOptions): Promise<Redis> {
  await using probe = await connectFailFast(given);
  void probe;
  const redis = listen(new Redis({ ...options(given), maxRetriesPerRequest: null }), given.log);
  await redis.connect();
  return redis;
}

/**
 * A connection for producers and commands: the first connect and every later command fail within some seconds.
 * Rejects with RedisUnreachableError.
 */
export async function connectFailFast(
  given: ConnectOptions & {
    /** Milliseconds the first connect may take. Default: 5000. */
    readonly timeoutMs?: number;
  },
): Promise<Redis & AsyncDisposable> {
  const timeoutMs = given.timeoutMs ?? 5_000;
  let connected = false;
  const { retryStrategy, ...rest } = options(given);
  const redis = new Redis({
    ...rest,
    connectTimeout: timeoutMs,
    maxRetriesPerRequest: 5,
    // Until the first connect has succeeded there is nothing to come back to.
    retryStrategy: (times) => (connected ? retryStrategy(times) : null),
  });
  let cause: unknown;
  redis.on('error', (error: Error) => {
    cause = error;
  });
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_resolve, reject) => {
    timer = setTimeout(() => reject(new Error(`no answer within ${timeoutMs} ms`)), timeoutMs);
  });
  try {
    await Promise.race([redis.connect().then(() => redis.ping()), late]);
  } catch (error) {
    redis.disconnect();
    throw new RedisUnreachableError(given.redisUrl, cause ?? error);
  } finally {
    clearTimeout(timer);
  }
  connected = true;
  redis.removeAllListeners('error');
  listen(redis, given.log);
  return Object.assign(redis, {
    [Symbol.asyncDispose]: async () => {
      await disconnect(redis);
    },
  });
}

/** Ends a connection: politely when it is up, at once when it is not. */
export async function disconnect(redis: Redis): Promise<void> {
  if (redis.status === 'end') return;
  if (redis.status !== 'ready') {
    redis.disconnect();
    return;
  }
  let timer: NodeJS.Timeout | undefined;
  try {
    await Promise.race([
      redis.quit(),
      new Promise((_resolve, reject) => {
        timer = setTimeout(() => reject(new Error('quit took too long')), 1_000);
      }),
    ]);
  } catch {
    redis.disconnect();
  } finally {
    clearTimeout(timer);
  }
}
