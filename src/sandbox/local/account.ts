import { spawn } from 'node:child_process';
import { createHash } from 'node:crypto';

const probeMs = 10_000;

/** First user id of those that sandboxes take, and how many there are. No system gives these to anybody. */
const firstUid = 1_600_000_000;
const uidCount = 400_000_000;

/** The user id of a sandbox: its own, so that what runs under it is surely the sandbox's. */
export function accountOf(nonce: string): number {
  return firstUid + (createHash('sha256').update(nonce).digest().readUInt32BE(0) % uidCount);
}

/** Whether that user can reach what a sandbox needs: files readable, programs runnable, the directory enterable. */
export async function accountWorks(
  uid: number,
  needs: { readonly directory: string; readonly programs: readonly string[]; readonly socketDir: string },
): Promise<boolean> {
  const script =
    'cd -- "$1" && [ -x "$2" ] && shift 2 || exit 1; for need; do [ -x "$need" ] || exit 1; done';
  const child = spawn('bash', ['-c', script, 'bash', needs.directory, needs.socketDir, ...needs.programs], {
    uid,
    gid: uid,
    cwd: '/',
    stdio: 'ignore',
    env: { PATH: '/usr/bin:/bin' },
    timeout: probeMs,
    killSignal: 'SIGKILL',
  });
  return new Promise((resolve) => {
    child.once('error', () => resolve(false));
    child.once('exit', (code) => resolve(code === 0));
  });
}
