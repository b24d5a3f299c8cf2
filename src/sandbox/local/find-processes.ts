import type { ProcessEntry } from './process-table.ts';

/** How the processes of a sandbox, or of one command in it, are known. */
export interface ProcessSearch {
  /** `NAME=value` that every process of it was given in its environment. */
  readonly mark: string;
  /** The user that runs nothing else on this machine, where there is one. Then the user alone decides. */
  readonly uid: number | null;
  /** Directory of the sandbox: an orphan that works in it belongs to it. null: that does not count. */
  readonly directory: string | null;
  /** Processes known to be alive and ours. */
  readonly roots: readonly number[];
}

/**
 * The processes a search means, descendants and session mates included. Without a user of its own a sandbox cannot be
 * told apart surely: a process that dropped its environment, left its session and its directory is not found.
 */
export function findProcesses(table: readonly ProcessEntry[], search: ProcessSearch): number[] {
  if (search.uid !== null) {
    const { uid } = search;
    return table.filter(({ uids }) => uids.includes(uid)).map(({ pid }) => pid);
  }
  const roots = new Set(search.roots);
  const inside = search.directory === null ? null : `${search.directory}/`;
  const victims = new Map<number, ProcessEntry>();
  const sessions = new Set<number>();
  const groups = new Set<number>();
  const take = (entry: ProcessEntry): void => {
    victims.set(entry.pid, entry);
    if (entry.session > 1) sessions.add(entry.session);
    if (entry.group > 1) groups.add(entry.group);
  };
  for (const entry of table) {
    if (roots.has(entry.pid) || entry.environment.includes(search.mark)) take(entry);
    else if (
      inside !== null &&
      entry.parent === 1 &&
      entry.cwd !== null &&
      `${entry.cwd}/`.startsWith(inside)
    ) {
      // Only an orphan, and it alone: somebody's shell that looks into the directory is not ours to end.
      victims.set(entry.pid, entry);
    }
  }
  for (let size = -1; size !== victims.size;) {
    size = victims.size;
    for (const entry of table) {
      if (victims.has(entry.pid)) continue;
      if (victims.has(entry.parent) || sessions.has(entry.session) || groups.has(entry.group)) take(entry);
    }
  }
  return [...victims.keys()];
}
