import { readdirSync, readFileSync, readlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import Docker from 'dockerode';

/** What a process holds at a moment at which it has nothing to do. */
export interface LeakCounts {
  /** What keeps Node's loop busy, timers too. */
  readonly handles: number;
  readonly descriptors: number;
  readonly sockets: number;
  readonly containers: number;
  /** Children of this process. */
  readonly processes: number;
  /** Directories and sockets below the worker's own, and temporary ones of this process. */
  readonly directories: number;
}

export interface LeakSample extends LeakCounts {
  readonly episodes: number;
  readonly rss_mb: number;
  /** After a collection, where the process may ask for one. */
  readonly heap_mb: number;
}

function childrenOf(parent: number): number {
  let count = 0;
  for (const pid of readdirSync('/proc')) {
    if (!/^\d+$/.test(pid)) continue;
    try {
      const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
      const command = readFileSync(`/proc/${pid}/cmdline`, 'utf8');
      // A transpiler keeps a service process of its own.
      if (
        Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[1]) === parent &&
        !command.includes('esbuild')
      ) {
        count += 1;
      }
    } catch {
      // It ended while we looked.
    }
  }
  return count;
}

function descriptors(): string[] {
  return readdirSync('/proc/self/fd').flatMap((fd) => {
    try {
      return [readlinkSync(`/proc/self/fd/${fd}`)];
    } catch {
      return [];
    }
  });
}

/** Counts what this process holds now. `directory`: the worker's own. Linux only. */
export async function countLeaks(pool: string, directory: string): Promise<LeakCounts> {
  const docker = new Docker();
  const filters = { label: [`io.rollpool.pool=${pool}`] };
  const containers = await docker.listContainers({ all: true, filters });
  // The look itself leaves a connection that ends with the next turns of the loop.
  await new Promise((resolve) => setTimeout(resolve, 50));
  const open = descriptors();
  const temporary = readdirSync(tmpdir()).filter((name) => name.includes(`-${process.pid}-`));
  return {
    handles: process.getActiveResourcesInfo().length,
    descriptors: open.length,
    sockets: open.filter((target) => target.startsWith('socket:')).length,
    containers: containers.length,
    processes: childrenOf(process.pid),
    directories: readdirSync(directory, { recursive: true }).length + temporary.length,
  };
}

/** The same with memory. */
export async function sampleLeaks(episodes: number, pool: string, directory: string): Promise<LeakSample> {
  const counts = await countLeaks(pool, directory);
  globalThis.gc?.();
  const { rss, heapUsed } = process.memoryUsage();
  const mb = (bytes: number): number => Math.round((bytes / 2 ** 20) * 10) / 10;
  return { episodes, ...counts, rss_mb: mb(rss), heap_mb: mb(heapUsed) };
}

/** Counts that may differ between two idle moments: connections of pools, timers that are due. */
const slack = 4;

/**
 * What grew from the first sample to the last, in words; empty when nothing did. `ready`: containers that may be there at any
 * time, ahead of their episodes.
 */
export function growthOf(samples: readonly LeakSample[], ready = 0): string[] {
  const [first, last] = [samples[0]!, samples.at(-1)!];
  const episodes = last.episodes - first.episodes;
  const names = ['handles', 'descriptors', 'sockets', 'containers', 'processes', 'directories'] as const;
  const grown = names
    .filter((name) => last[name] > (name === 'containers' ? ready : first[name] + slack))
    .map(
      (name) =>
        `${name}: ${first[name]} after ${first.episodes} episodes, ${last[name]} after ${last.episodes}`,
    );
  const kilobytes = ((last.heap_mb - first.heap_mb) * 1024) / episodes;
  // Short runs still warm up their code.
  if (episodes >= 500 && kilobytes > 20) grown.push(`heap: ${kilobytes.toFixed(0)} KB for each episode`);
  return grown;
}
