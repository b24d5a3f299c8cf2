import type Docker from 'dockerode';
import { infraFailure } from '../sandbox-failure.ts';
import type { ControlChannel } from './control-channel.ts';
import { daemonCall } from './daemon.ts';

/** Passes after which new processes are forbidden: who still has some is making them faster than they are found. */
const openPasses = 4;

export interface KillUserOptions {
  readonly uid: number;
  readonly user: string;
  readonly timeoutMs: number;
  /** The container's limit, which is put back. */
  readonly pidsLimit: number;
}

/**
 * Kills every process of one user and resolves when none is left. It is done by root from inside (init.sh), which that
 * user can neither signal nor stop, by the process table and not by parentage: sessions, double forks and ignored
 * signals make no difference. Clean means two looks in a row that found nothing and during which nothing ended. A fork
 * bomb is beaten by forbidding new processes for a moment. Rejects (infra) past the deadline.
 */
export async function killUser(
  container: Docker.Container,
  control: ControlChannel,
  options: KillUserOptions,
): Promise<void> {
  const deadline = Date.now() + options.timeoutMs;
  const left = (): number => Math.max(1, deadline - Date.now());
  let clean = 0;
  let forbidden = false;
  const limit = async (value: number): Promise<void> => {
    await daemonCall('limit processes', left(), async () => {
      await container.update({ PidsLimit: value });
    });
  };
  try {
    for (let pass = 1; clean < 2; pass++) {
      const answer = await control.ask('kill', String(options.uid), left());
      clean = answer === '0 0' ? clean + 1 : 0;
      if (clean === 2) return;
      if (Date.now() > deadline) {
        throw infraFailure(
          'kill_failed',
          `processes of the ${options.user} are left after ${options.timeoutMs} ms of killing them`,
        );
      }
      if (pass === openPasses) {
        await limit(1);
        forbidden = true;
      }
      // A killed process needs a moment to go.
      if (clean === 0) await new Promise((resolve) => setTimeout(resolve, Math.min(pass, 20)));
    }
  } finally {
    if (forbidden) {
      await daemonCall('allow processes', 30_000, async () => {
        await container.update({ PidsLimit: options.pidsLimit });
      });
    }
  }
}
