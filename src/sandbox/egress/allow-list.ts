import { parseAllowEntry, type AllowEntry } from '../../contracts/index.ts';
import { isInside, readNetwork, type Network } from './addresses.ts';
import type { Target } from './target.ts';

/** Ports of an entry that names none: those of HTTP and HTTPS. */
const defaultPorts: ReadonlySet<number> = new Set([80, 443]);

interface Rule {
  readonly entry: AllowEntry;
  readonly network: Network | null;
}

/** `host`: nothing on the list is this host; `port`: the host is on it, and this port of it is not. */
export type ListVerdict = 'listed' | 'host' | 'port';

/** The hosts a sandbox may reach. */
export class AllowList {
  readonly #rules: readonly Rule[];

  /** @throws AllowEntryError */
  constructor(entries: readonly string[]) {
    this.#rules = entries.map((text) => {
      const entry = parseAllowEntry(text);
      const network = entry.kind === 'network' ? readNetwork(`${entry.address}/${entry.prefix}`) : null;
      return { entry, network };
    });
  }

  /**
   * Whether a target is on the list by what the request calls it. A name is never looked up to find out: asking for one
   * would tell whoever answers for it what stands in it.
   */
  look(target: Target): ListVerdict {
    const rules = this.#rules.filter((rule) => covers(rule, target));
    if (rules.length === 0) return 'host';
    const open = rules.some(({ entry: { port } }) =>
      port === null ? defaultPorts.has(target.port) : port === target.port,
    );
    return open ? 'listed' : 'port';
  }
}

function covers({ entry, network }: Rule, { host, isAddress }: Target): boolean {
  if (entry.kind === 'network') return isAddress && network !== null && isInside(host, network);
  if (isAddress) return false;
  return entry.subdomains ? host.endsWith(`.${entry.name}`) : host === entry.name;
}
