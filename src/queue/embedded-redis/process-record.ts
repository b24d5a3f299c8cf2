import { execFileSync } from 'node:child_process';
import { readFileSync, readlinkSync } from 'node:fs';
import { hostname } from 'node:os';
import { z } from 'zod';

/**
 * A process, named so that another one that got its number later is not taken for it. `started` is an opaque text
 * that two processes of the same number never share.
 */
export const processRecordSchema = z.object({
  pid: z.int().positive(),
  started: z.string(),
  host: z.string(),
});
export type ProcessRecord = z.infer<typeof processRecordSchema>;

/**
 * A process of the same hostname can be looked up: either it is on this machine, or the machine (or the container)
 * was started anew, which `started` shows. macOS changes its hostname with the network and has no containers.
 */
function thisHost(): string {
  return process.platform === 'darwin' ? 'darwin' : hostname();
}

/** When a process started, null when there is none or only its zombie. */
function startOf(pid: number): string | null {
  if (process.platform === 'linux') {
    try {
      const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
      // The command's name stands in brackets and may hold anything, brackets too.
      const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
      if (fields[0] === 'Z' || fields[0] === 'X') return null;
      const boot = readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim();
      return `${boot} ${readlinkSync('/proc/self/ns/pid')} ${fields[19]}`;
    } catch {
      return null;
    }
  }
  try {
    const [state = 'Z', ...started] = execFileSync('ps', ['-o', 'stat=,lstart=', '-p', `${pid}`], {
      encoding: 'utf8',
      stdio: ['ignore', 'pipe', 'ignore'],
      timeout: 5_000,
    })
      .trim()
      .split(/\s+/);
    return state.startsWith('Z') ? null : started.join(' ');
  } catch {
    return null;
  }
}

/** The record of a running process of this machine; null when there is none. */
export function recordOf(pid: number): ProcessRecord | null {
  const started = startOf(pid);
  return started === null ? null : { pid, started, host: thisHost() };
}

/** Whether the recorded process still runs; `elsewhere` when only another machine could tell. */
export function lookUp(record: ProcessRecord): 'alive' | 'dead' | 'elsewhere' {
  if (record.host !== thisHost()) return 'elsewhere';
  return startOf(record.pid) === record.started ? 'alive' : 'dead';
}

/**
 * Whether the recorded process, if it lived, could be seen from here. In this boot of the machine, one of another pid namespace
 * (a container with this hostname) could not; `lookUp` takes it for dead, as its namespace mostly is.
 */
export function inSight(record: ProcessRecord): boolean {
  const own = recordOf(process.pid);
  if (process.platform !== 'linux' || own === null) return true;
  const [boot, namespace] = record.started.split(' ');
  const [ownBoot, ownNamespace] = own.started.split(' ');
  return boot !== ownBoot || namespace === ownNamespace;
}
