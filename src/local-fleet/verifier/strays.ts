import { readdir, readFile } from 'node:fs/promises';

/** One that cannot be killed is not waited for. */
const mostLooks = 50;

/**
 * Kills the processes that have a directory for their home: what a verifier started and put into a group of its own.
 * Only root's can be, since others may start no process at all, and only on Linux can they be found; elsewhere it does
 * nothing. One that is started while it looks is found by the next look.
 */
export async function killStrays(home: string): Promise<void> {
  if (process.platform !== 'linux' || process.getuid?.() !== 0) return;
  for (let found = true, looks = 0; found && looks < mostLooks; looks++) {
    const pids = (await readdir('/proc')).filter((name) => /^\d+$/.test(name));
    const killed = await Promise.all(pids.map(async (pid) => kill(pid, `HOME=${home}\0`)));
    found = killed.includes(true);
  }
}

async function kill(pid: string, mark: string): Promise<boolean> {
  try {
    const variables = await readFile(`/proc/${pid}/environ`, 'utf8');
    if (!`\0${variables}`.includes(`\0${mark}`)) return false;
    return process.kill(Number(pid), 'SIGKILL');
  } catch {
    // It has ended meanwhile, or is not ours to look at.
    return false;
  }
}
