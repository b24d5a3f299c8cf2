import { infraFailure } from '../sandbox-failure.ts';
import { findProcesses, type ProcessSearch } from './find-processes.ts';
import { listProcesses } from './process-table.ts';

function signal(pid: number, name: 'SIGSTOP' | 'SIGKILL'): void {
  try {
    process.kill(pid, name);
  } catch {
    // It ended by itself.
  }
}

/**
 * Kills what a search finds until two looks in a row find nothing. They are stopped before they are killed, so that
 * none of them makes another meanwhile. Rejects (infra) past the deadline.
 */
export async function killProcesses(search: () => ProcessSearch, timeoutMs: number): Promise<void> {
  const deadline = Date.now() + timeoutMs;
  for (let clean = 0, pass = 1; ; pass++) {
    const found = findProcesses(await listProcesses(), search());
    clean = found.length === 0 ? clean + 1 : 0;
    if (clean === 2) return;
    if (Date.now() > deadline) {
      throw infraFailure(
        'kill_failed',
        `${found.length} processes of the sandbox are left after ${timeoutMs} ms of killing them`,
      );
    }
    for (const pid of found) signal(pid, 'SIGSTOP');
    for (const pid of found) signal(pid, 'SIGKILL');
    if (found.length > 0) await new Promise((resolve) => setTimeout(resolve, Math.min(pass, 20)));
  }
}
