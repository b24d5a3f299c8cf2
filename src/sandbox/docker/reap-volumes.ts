import type Docker from 'dockerode';
import type { ReapFilter } from '../../contracts/index.ts';
import { daemonCall, statusOf } from './daemon.ts';

const callMs = 60_000;

/** Every volume with an agent CLI has it, and nothing else. */
const cliLabel = 'io.rollpool.cli';

/** A volume that nobody has used for this long holds a CLI that nobody has any more, or is filled again in seconds. */
const keepMs = 30 * 24 * 3_600_000;
/** One that was just made is about to be used. */
const newMs = 600_000;

/**
 * Removes volumes with agent CLIs that no container has. All pools of a daemon share them, and none says when it was used
 * last: those of the last month go only when a whole pool is removed. Gives their names.
 */
export async function reapVolumes(
  docker: Docker,
  filter: ReapFilter,
  now: number = Date.now(),
): Promise<string[]> {
  const removed: string[] = [];
  const everyOne = filter.all === true && filter.run_id === undefined;
  const { Volumes } = await daemonCall('list volumes', callMs, () =>
    docker.listVolumes({ filters: JSON.stringify({ label: [cliLabel], dangling: ['true'] }) }),
  );
  for (const volume of Volumes ?? []) {
    const { CreatedAt } = volume as { CreatedAt?: string };
    const age = now - Date.parse(CreatedAt ?? '');
    if (!(age > (everyOne ? newMs : keepMs))) continue;
    try {
      await daemonCall('remove volume', callMs, async () => {
        await docker.getVolume(volume.Name).remove();
      });
      removed.push(volume.Name);
    } catch (error) {
      // Taken by a container since it was listed, or removed by somebody else.
      const status = statusOf(error instanceof Error ? (error.cause ?? error) : error);
      if (status !== 409 && status !== 404) throw error;
    }
  }
  return removed;
}
