import ipaddr from 'ipaddr.js';
import { z } from 'zod';

/** A place that an allow list leads to. A port of null stands for 80 and 443. */
export type AllowEntry =
  | {
      readonly kind: 'name';
      /** Lower case, in ASCII (punycode), without a dot at its end. */
      readonly name: string;
      /** Whether it stands for the names below `name`, and not for `name` itself. */
      readonly subdomains: boolean;
      readonly port: number | null;
    }
  | {
      readonly kind: 'network';
      /** First address, as short as it gets. */
      readonly address: string;
      /** Bits that count: all of them for a single address. */
      readonly prefix: number;
      readonly port: number | null;
    };

/** What is wrong with an entry, in words that follow its name. */
export class AllowEntryError extends Error {}

function refuse(why: string): never {
  throw new AllowEntryError(why);
}

const longestName = 253;
const label = /^(?!-)[a-z0-9_-]{1,63}(?<!-)$/;

/** Whether `name` is a name of hosts in its normal form: lower case, ASCII, no dot at its end, no address. */
export function isHostName(name: string): boolean {
  const labels = name.split('.');
  return (
    name.length <= longestName &&
    labels.every((part) => label.test(part)) &&
    !/^\d+$/.test(labels.at(-1) ?? '')
  );
}

/** The name as a URL has it: lower case and punycode; null when it is none. An odd spelling of an address becomes one. */
function urlHost(text: string): string | null {
  if (/[\s/\\?#@:%<>^|[\]]/.test(text)) return null;
  const url = `http://${text}/`;
  return URL.canParse(url) ? new URL(url).hostname : null;
}

function portOf(text: string): number {
  const port = /^\d{1,5}$/.test(text) ? Number(text) : 0;
  return port >= 1 && port <= 65_535
    ? port
    : refuse(`has a port that is not one of 1 to 65535: ${JSON.stringify(text)}`);
}

function networkOf(address: string, bits: string | undefined, port: number | null): AllowEntry {
  if (address.includes('%')) refuse('names an interface, which an address here has none of');
  const parsed = ipaddr.parse(address);
  const longest = parsed.kind() === 'ipv4' ? 32 : 128;
  const prefix = bits === undefined ? longest : /^\d{1,3}$/.test(bits) ? Number(bits) : longest + 1;
  if (prefix > longest) refuse(`has a network length that is not one of 0 to ${longest}`);
  const cidr = `${parsed.toString()}/${prefix}`;
  const first =
    parsed.kind() === 'ipv4'
      ? ipaddr.IPv4.networkAddressFromCIDR(cidr)
      : ipaddr.IPv6.networkAddressFromCIDR(cidr);
  return { kind: 'network', address: first.toString(), prefix, port };
}

function nameOf(text: string, port: number | null): AllowEntry {
  const subdomains = text.startsWith('*.');
  const given = (subdomains ? text.slice(2) : text).replace(/\.$/, '');
  if (given.includes('*')) refuse('may have * only as its first part, as in *.example.com');
  const name = urlHost(given);
  if (name === null) refuse('is not a host name');
  if (ipaddr.IPv4.isValid(name)) refuse(`is another spelling of the address ${name}: write that`);
  if (!isHostName(name)) refuse('is not a host name');
  return { kind: 'name', name, subdomains, port };
}

/**
 * Reads `host`, `*.host`, `host:port`, an IPv4 or IPv6 address, `[v6]:port` or a network in CIDR notation.
 *
 * @throws AllowEntryError
 */
export function parseAllowEntry(text: string): AllowEntry {
  if (text === '') refuse('is empty');
  if (text === '*') refuse('stands for every host, which is what network "open" is for');
  if (text.includes('://')) refuse('must be a host without a scheme');
  if (text.includes('@')) refuse('must be a host without a user');
  const [, v6, v6Rest = ''] = /^\[([^\]]*)\](.*)$/s.exec(text) ?? [];
  if (v6 !== undefined) {
    if (!ipaddr.IPv6.isValid(v6)) refuse('is not an IPv6 address');
    if (v6Rest !== '' && !v6Rest.startsWith(':')) refuse('may have only a port behind the address');
    return networkOf(v6, undefined, v6Rest === '' ? null : portOf(v6Rest.slice(1)));
  }
  const [base = '', bits, ...more] = text.split('/');
  if (ipaddr.IPv4.isValidFourPartDecimal(base) || ipaddr.IPv6.isValid(base)) {
    if (more.length > 0 || bits === '') refuse('is not a network, such as 10.1.0.0/16 or fd00::/8');
    return networkOf(base, bits, null);
  }
  if (bits !== undefined) refuse('must be a host without a path');
  const [host = '', port, ...rest] = text.split(':');
  if (rest.length > 0) refuse('is not an IPv6 address');
  const number = port === undefined ? null : portOf(port);
  return ipaddr.IPv4.isValidFourPartDecimal(host) ? networkOf(host, undefined, number) : nameOf(host, number);
}

/** The one way to write an entry. */
export function formatAllowEntry(entry: AllowEntry): string {
  const port = entry.port === null ? '' : `:${entry.port}`;
  if (entry.kind === 'name') return `${entry.subdomains ? '*.' : ''}${entry.name}${port}`;
  const isV6 = entry.address.includes(':');
  if (entry.prefix < (isV6 ? 128 : 32)) return `${entry.address}/${entry.prefix}`;
  return isV6 && port !== '' ? `[${entry.address}]${port}` : `${entry.address}${port}`;
}

/** An entry of an allow list; its normal form is that of `formatAllowEntry`. */
export const allowEntrySchema = z
  .string()
  .check((context) => {
    try {
      context.value = formatAllowEntry(parseAllowEntry(context.value));
    } catch (error) {
      if (!(error instanceof AllowEntryError)) throw error;
      context.issues.push({
        code: 'custom',
        input: context.value,
        message: `${JSON.stringify(context.value)} ${error.message}`,
        continue: true,
      });
    }
  })
  .meta({
    description: 'host, *.host, host:port, an IPv4 or IPv6 address, [v6]:port, or a network in CIDR notation',
  });
