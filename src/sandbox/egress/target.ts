import { isIP } from 'node:net';
import { isHostName } from '../../contracts/index.ts';

/** Where a request wants to go. */
export interface Target {
  /** A name in its normal form, or an address as short as it gets, without brackets. */
  readonly host: string;
  readonly isAddress: boolean;
  readonly port: number;
}

/** As a person writes it. */
export function showTarget({ host, port }: Target): string {
  return `${host.includes(':') ? `[${host}]` : host}:${port}`;
}

/** `host` as a URL has it: lower case, punycode, and each spelling of an IPv4 address (hex, octal, one number) as four. */
function targetOf(hostname: string, port: number): Target | null {
  const bare = hostname.startsWith('[') ? hostname.slice(1, -1) : hostname;
  if (isIP(bare) !== 0) return { host: bare, isAddress: true, port };
  const name = bare.replace(/\.$/, '');
  return isHostName(name) ? { host: name, isAddress: false, port } : null;
}

/** Reads `host`, `host:port`, `[v6]` or `[v6]:port`, and nothing beside it; null when it is anything else. */
export function readAuthority(text: string, defaultPort: number | null): Target | null {
  const [, host, port] =
    /^(\[[0-9a-fA-F:.]{2,45}\]|[^\s/\\?#@:%<>^|[\]]{1,255})(?::(\d{1,5}))?$/.exec(text) ?? [];
  if (host === undefined) return null;
  const number = port === undefined ? defaultPort : Number(port);
  if (number === null || number < 1 || number > 65_535) return null;
  const url = `http://${host}/`;
  return URL.canParse(url) ? targetOf(new URL(url).hostname, number) : null;
}

/** Reads the target of a plain request: an absolute `http://` URL without a user. */
export function readAbsolute(text: string): Target | null {
  if (!/^http:\/\/[^/]/i.test(text) || !URL.canParse(text)) return null;
  const url = new URL(text);
  if (url.protocol !== 'http:' || url.username !== '' || url.password !== '') return null;
  return targetOf(url.hostname, url.port === '' ? 80 : Number(url.port));
}

export function sameTarget(one: Target, other: Target): boolean {
  return one.host === other.host && one.port === other.port;
}
