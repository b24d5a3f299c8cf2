import type { SandboxNetworkOpts } from 'e2b';
import { parseAllowEntry, type SandboxSpec } from '../../contracts/index.ts';
import { taskFailure } from '../sandbox-failure.ts';

const everything = '0.0.0.0/0';

/** An entry of an allow list as E2B takes it: a name, `*.name`, an IPv4 address or network, of any port (facts: E2B 2.6). */
function allowed(text: string): string {
  const entry = parseAllowEntry(text);
  const refuse = (why: string): never => {
    throw taskFailure(
      'network_allow_unsupported',
      `sandbox.network.allow: ${text}: E2B sandboxes cannot ${why}`,
    );
  };
  if (entry.port !== null) refuse('be held to one port');
  if (entry.kind === 'name') return entry.subdomains ? `*.${entry.name}` : entry.name;
  if (entry.address.includes(':')) refuse('be given an IPv6 address');
  return entry.prefix === 32 ? entry.address : `${entry.address}/${entry.prefix}`;
}

/**
 * What a sandbox reaches. Whatever that is, nobody reaches it: the addresses that E2B gives to its ports need a token
 * that nobody has.
 */
export function networkOf(network: SandboxSpec['network']): {
  allowInternetAccess: boolean;
  network: SandboxNetworkOpts;
} {
  if (typeof network === 'object') {
    return {
      allowInternetAccess: true,
      network: { allowOut: network.allow.map(allowed), denyOut: [everything], allowPublicTraffic: false },
    };
  }
  return { allowInternetAccess: network === 'open', network: { allowPublicTraffic: false } };
}
