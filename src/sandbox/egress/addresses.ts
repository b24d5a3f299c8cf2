import { networkInterfaces } from 'node:os';
import ipaddr from 'ipaddr.js';

/** A network in CIDR notation, read. */
export type Network = readonly [address: ipaddr.IPv4 | ipaddr.IPv6, prefix: number];

export function readNetwork(cidr: string): Network {
  return ipaddr.parseCIDR(cidr);
}

export function isInside(address: string, network: Network): boolean {
  const parsed = ipaddr.parse(address);
  return parsed.kind() === network[0].kind() && parsed.match([...network]);
}

/** Public by its number, and yet a cloud's own: Azure's WireServer, which answers with a machine's secrets. */
const metadata = new Set(['168.63.129.16']);

/** Every address that the IPv6 registry has given out; all others belong to nobody or to one machine. */
const globalV6 = ipaddr.parseCIDR('2000::/3');

const words: Readonly<Record<string, string>> = {
  private: 'a private address',
  uniqueLocal: 'a private address',
  loopback: 'an address of the machine itself',
  linkLocal: 'a link-local or metadata address',
  carrierGradeNat: "an address of a carrier's own network",
  multicast: 'a multicast address',
  broadcast: 'a broadcast address',
  unspecified: 'an address of the machine itself',
  ipv4Mapped: 'an IPv4 address in the form of an IPv6 one',
  rfc6052: 'an IPv4 address in the form of an IPv6 one',
  rfc6145: 'an IPv4 address in the form of an IPv6 one',
  '6to4': 'an IPv4 address in the form of an IPv6 one',
  teredo: 'an IPv4 address in the form of an IPv6 one',
};

/** Addresses that this machine has now, without the interface that may stand behind them. */
export function ownAddresses(): ReadonlySet<string> {
  const all = Object.values(networkInterfaces()).flatMap((addresses) => addresses ?? []);
  return new Set(all.map(({ address }) => ipaddr.parse(address.replace(/%.*$/, '')).toString()));
}

/**
 * What keeps an address from being connected to, as `is ...`; null when it may be: it is public and unicast and no
 * address of this machine (which its firewall takes for itself), or one of `allowed` holds it.
 */
export function whyNotReachable(
  address: string,
  allowed: readonly Network[],
  own: ReadonlySet<string>,
): string | null {
  if (allowed.some((network) => isInside(address, network))) return null;
  const parsed = ipaddr.parse(address);
  const range = parsed.range();
  if (range !== 'unicast') return words[range] ?? 'not a public address';
  if (parsed.kind() === 'ipv6' && !parsed.match(globalV6)) return 'not a public address';
  if (metadata.has(parsed.toString())) return 'a link-local or metadata address';
  if (own.has(parsed.toString())) return 'an address of the machine itself';
  return null;
}
