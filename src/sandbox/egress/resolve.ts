import { lookup } from 'node:dns/promises';
import PQueue from 'p-queue';

/** Addresses of a name, best first. Rejects when it has none. */
export type Resolve = (name: string) => Promise<readonly string[]>;

/**
 * The system's own way to find addresses (its hosts file and search domains included) blocks one of the four threads that
 * all file work of this process shares. However slow a name server is, two are left.
 */
const lookups = new PQueue({ concurrency: 2 });

export const systemResolve: Resolve = async (name) => {
  const found = await lookups.add(() => lookup(name, { all: true, verbatim: true }));
  return found.map(({ address }) => address);
};

/** Asks for one name at a time, and once for all who ask for it meanwhile: one sandbox must not hold up the others' lookups. */
export function oneAtATime(resolve: Resolve): Resolve {
  const queue = new PQueue({ concurrency: 1 });
  const running = new Map<string, Promise<readonly string[]>>();
  return async (name) => {
    const known = running.get(name);
    if (known !== undefined) return known;
    const asked = queue.add(() => resolve(name)).finally(() => running.delete(name));
    running.set(name, asked);
    return asked;
  };
}
