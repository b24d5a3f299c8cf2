import type { RedisOptions as AllOptions } from 'ioredis';

/** Options without the choice of reply shapes, which stays ioredis's own. */
export type RedisOptions = Omit<AllOptions, 'replyMapping'>;

/**
 * ioredis options of a `REDIS_URL`: `redis://[user:password@]host[:port][/db]`, the same with `rediss://` (TLS), or
 * `unix:///path/to.sock[?db=n&username=u&password=p]`. Throws an Error that names REDIS_URL.
 */
export function parseRedisUrl(redisUrl: string): RedisOptions {
  let url: URL;
  try {
    url = new URL(redisUrl);
  } catch {
    throw new Error(`REDIS_URL is not a URL: ${redactRedisUrl(redisUrl)}`);
  }
  const username = url.username || url.searchParams.get('username');
  const password = url.password || url.searchParams.get('password');
  const auth = {
    ...(username ? { username: decodeURIComponent(username) } : {}),
    ...(password ? { password: decodeURIComponent(password) } : {}),
  };
  switch (url.protocol) {
    case 'unix:': {
      const path = decodeURIComponent(url.pathname);
      if (!path.startsWith('/') || path === '/') throw new Error('REDIS_URL: unix:// needs an absolute path');
      return { path, db: database(url.searchParams.get('db')), ...auth };
    }
    case 'redis:':
    case 'rediss:':
      return {
        // A bracketed IPv6 host is looked up without its brackets.
        host: url.hostname.replace(/^\[|\]$/g, '') || '127.0.0.1',
        port: url.port === '' ? 6379 : Number(url.port),
        db: database(url.pathname.replace(/^\//, '') || url.searchParams.get('db')),
        ...auth,
        ...(url.protocol === 'rediss:' ? { tls: {} } : {}),
      };
    default:
      throw new Error(`REDIS_URL must start with redis://, rediss:// or unix://, got ${url.protocol}//`);
  }
}

function database(text: string | null): number {
  if (text === null || text === '') return 0;
  if (!/^\d{1,5}$/.test(text)) throw new Error(`REDIS_URL: the database must be a number, got "${text}"`);
  return Number(text);
}

/** The URL without its password, for messages and logs. */
export function redactRedisUrl(redisUrl: string): string {
  return redisUrl
    .replace(/^([a-z+]+:\/\/[^:@/?]*):[^@/?]*@/i, '$1:***@')
    .replace(/([?&]password=)[^&]*/i, '$1***');
}
