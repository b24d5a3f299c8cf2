import { isIP } from 'node:net';
import { z } from 'zod';
import { laneSchema, type Lane } from '../contracts/index.ts';

/** How many episodes run at once: on every lane, or lane by lane; what is null or absent is for the worker to choose. */
export interface Concurrency {
  readonly everyLane: number | null;
  readonly byLane: Readonly<Partial<Record<Lane, number>>>;
}

/** A text that is read by `read`; what it throws is the fault. */
function text<T>(read: (value: string) => T): z.ZodType<T, string> {
  return z.string().transform((value, context) => {
    try {
      return read(value.trim());
    } catch (fault) {
      context.addIssue({ code: 'custom', message: (fault as Error).message });
      return z.NEVER;
    }
  });
}

/** The number in a text, checked by `schema`. */
export function numberText<T>(schema: z.ZodType<T, number>): z.ZodType<T, string> {
  const plain = /^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i;
  return text((value) => {
    if (!plain.test(value)) throw new Error('must be a number');
    return Number(value);
  }).pipe(schema);
}

export const flag = text((value) => {
  if (['1', 'true', 'yes', 'on'].includes(value.toLowerCase())) return true;
  if (['0', 'false', 'no', 'off'].includes(value.toLowerCase())) return false;
  throw new Error('must be true or false');
});

export const plainText = text((value) => value);

function listOf<T>(value: string, read: (item: string) => T): readonly T[] {
  const items = value
    .split(',')
    .map((item) => item.trim())
    .filter((item) => item !== '');
  if (items.length === 0) throw new Error('names nothing');
  return items.map(read);
}

function lane(name: string): Lane {
  const parsed = laneSchema.safeParse(name);
  if (!parsed.success) throw new Error(`"${name}" is not a lane (${laneSchema.options.join(', ')})`);
  return parsed.data;
}

export const lanes = text((value) => [...new Set(listOf(value, lane))] as readonly Lane[]);

export const concurrency = text((value): Concurrency => {
  let everyLane: number | null = null;
  const byLane: Partial<Record<Lane, number>> = {};
  listOf(value, (item) => {
    const parts = item.split('=').map((part) => part.trim());
    const count = Number(parts.at(-1));
    if (parts.length > 2 || !Number.isInteger(count) || count < 1) {
      throw new Error('must be a whole number above 0, or lane=N,...');
    }
    if (parts.length === 1) {
      if (everyLane !== null) throw new Error('gives two numbers for every lane');
      everyLane = count;
      return;
    }
    const name = lane(parts[0] ?? '');
    if (byLane[name] !== undefined) throw new Error(`names ${name} twice`);
    byLane[name] = count;
  });
  return { everyLane, byLane };
});

function parseUrl(value: string, protocols: readonly string[]): URL {
  const url = URL.canParse(value) ? new URL(value) : null;
  if (url === null || !protocols.includes(url.protocol)) {
    throw new Error(`must be a URL (${protocols.map((protocol) => `${protocol}//`).join(', ')})`);
  }
  return url;
}

export const redisUrl = text((value) => {
  const url = parseUrl(value, ['redis:', 'rediss:', 'unix:']);
  if (url.protocol === 'unix:') {
    if (url.hostname !== '' || url.pathname.length < 2)
      throw new Error('must name a path: unix:///path/to/redis.sock');
  } else {
    if (url.hostname === '') throw new Error('names no host');
    if (!/^\/?\d*$/.test(url.pathname))
      throw new Error('must end in the number of a database, or in nothing');
  }
  return value;
});

/** A base URL without a slash at the end; `key` is the variable that a password in it belongs to. */
function baseUrl(value: string, key: string): string {
  const url = parseUrl(value, ['http:', 'https:']);
  if (url.username !== '' || url.password !== '') {
    throw new Error(`must not hold a password: the key goes into ${key}`);
  }
  if (url.search !== '' || url.hash !== '') throw new Error('must have no query and no fragment');
  return `${url.origin}${url.pathname}`.replace(/\/+$/, '');
}

export const fleetUrl = text((value) => baseUrl(value, 'FLEET_API_KEY'));

export const serviceUrl = text((value) => baseUrl(value, 'E2B_API_KEY'));

/** Networks in CIDR notation; a single address stands for itself. */
export const networks = text((value) =>
  listOf(value, (item) => {
    const [address = '', bits, ...rest] = item.split('/');
    const family = isIP(address);
    const longest = family === 4 ? 32 : 128;
    const length = bits === undefined ? longest : Number(bits);
    if (
      family === 0 ||
      rest.length > 0 ||
      bits === '' ||
      !Number.isInteger(length) ||
      length < 0 ||
      length > longest
    ) {
      throw new Error(`"${item}" is not a network, such as 10.1.0.0/16 or fd00::/8`);
    }
    return `${address}/${length}`;
  }),
);

/** Base URLs of the policy's replicas, without `/v1` and without a slash at the end. */
export const policyUrls = text((value) => {
  const urls = listOf(value, (item) => baseUrl(item, 'ROLLPOOL_POLICY_API_KEY').replace(/\/v1$/, ''));
  if (new Set(urls).size < urls.length) throw new Error('names a replica twice');
  return urls;
});

export const dockerHost = text((value) => {
  parseUrl(value, ['unix:', 'tcp:', 'http:', 'https:', 'ssh:', 'npipe:']);
  return value;
});

/** All keys share one hash tag, so that scripts and transactions work on a cluster: `pool` becomes `{pool}`. */
export const prefix = text((value) => {
  const name = value.replace(/^\{(.*)\}$/, '$1');
  if (!/^[A-Za-z0-9_.-]{1,64}$/.test(name)) {
    throw new Error('must be 1 to 64 letters, digits, dots, dashes or underscores');
  }
  return `{${name}}`;
});
