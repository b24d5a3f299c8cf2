import { execFile } from 'node:child_process';
import { readFileSync, readdirSync, readlinkSync } from 'node:fs';
import { promisify } from 'node:util';

/** One process, as far as it could be looked at. */
export interface ProcessEntry {
  readonly pid: number;
  readonly parent: number;
  readonly group: number;
  /** 0 where the system does not say. */
  readonly session: number;
  /** Real, effective, saved and file system user ids; empty where the system does not say. */
  readonly uids: readonly number[];
  /** The process's environment (`NAME=value` items, and on macOS its arguments too); empty when it may not be read. */
  readonly environment: readonly string[];
  /** Working directory; null when it may not be read. */
  readonly cwd: string | null;
}

const psMs = 10_000;

/** Synchronous: these files are in memory, and a round trip through the thread pool costs ten times their reading. */
function readProc(pid: string): ProcessEntry | null {
  const root = `/proc/${pid}`;
  let status: string;
  let stat: string;
  try {
    status = readFileSync(`${root}/status`, 'utf8');
    stat = readFileSync(`${root}/stat`, 'utf8');
  } catch {
    // It ended while we looked.
    return null;
  }
  const [state, parent, group, session] = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  // A dead leader whose threads live on is shown as a zombie.
  const threads = Number(/^Threads:\s+(\d+)/m.exec(status)?.[1] ?? 1);
  if ((state === 'Z' || state === 'X') && threads <= 1) return null;
  return {
    pid: Number(pid),
    parent: Number(parent),
    group: Number(group),
    session: Number(session),
    uids: (/^Uid:\s+(.*)$/m.exec(status)?.[1] ?? '').split(/\s+/).map(Number),
    environment: readable(() => readFileSync(`${root}/environ`, 'utf8').split('\0'), []),
    cwd: readable(() => readlinkSync(`${root}/cwd`), null),
  };
}

function readable<T>(read: () => T, otherwise: T): T {
  try {
    return read();
  } catch {
    return otherwise;
  }
}

async function readPs(): Promise<ProcessEntry[]> {
  // `-E` shows the environment of one's own processes on macOS; there is nothing better without /proc.
  const { stdout } = await promisify(execFile)('ps', ['-axEww', '-o', 'pid=,ppid=,pgid=,state=,command='], {
    timeout: psMs,
    maxBuffer: 64 * 2 ** 20,
  });
  return stdout.split('\n').flatMap((line) => {
    const match = /^\s*(\d+)\s+(\d+)\s+(\d+)\s+(\S+)\s+(.*)$/.exec(line);
    if (match === null || match[4]!.startsWith('Z')) return [];
    return [
      {
        pid: Number(match[1]),
        parent: Number(match[2]),
        group: Number(match[3]),
        session: 0,
        uids: [],
        environment: match[5]!.split(' '),
        cwd: null,
      },
    ];
  });
}

/** Every living process of this machine but this one. */
export async function listProcesses(): Promise<ProcessEntry[]> {
  if (process.platform !== 'linux') return (await readPs()).filter(({ pid }) => pid !== process.pid);
  const found: ProcessEntry[] = [];
  for (const [index, pid] of readdirSync('/proc').entries()) {
    if (!/^\d+$/.test(pid) || Number(pid) === process.pid) continue;
    const entry = readProc(pid);
    if (entry !== null) found.push(entry);
    // A machine may have thousands: let others have a turn.
    if (index % 200 === 199) await new Promise((resolve) => setImmediate(resolve));
  }
  return found;
}
