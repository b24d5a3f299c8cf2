import { readdirSync, readFileSync } from 'node:fs';

/** A process as /proc shows it to everybody. */
export interface SeenProcess {
  readonly pid: number;
  readonly command: string;
}

/** Children of a process that run; none where there is no /proc. */
export function childProcesses(parent: number): SeenProcess[] {
  const found: SeenProcess[] = [];
  for (const name of readdirSync('/proc')) {
    if (!/^\d+$/.test(name)) continue;
    try {
      const stat = readFileSync(`/proc/${name}/stat`, 'utf8');
      const [state, owner] = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
      if (Number(owner) !== parent || state === 'Z') continue;
      const command = readFileSync(`/proc/${name}/cmdline`, 'utf8').replaceAll('\0', ' ').trim();
      found.push({ pid: Number(name), command });
    } catch {
      // It ended while we looked.
    }
  }
  return found;
}

/** Whether a process runs. */
export function isAlive(pid: number): boolean {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
    return stat.slice(stat.lastIndexOf(')') + 2)[0] !== 'Z';
  } catch {
    return false;
  }
}
