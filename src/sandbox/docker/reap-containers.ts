import type Docker from 'dockerode';
import { crashPoint } from '../../observe/index.ts';
import { EpisodeError, reapVerdict, type ReapFilter, type ReapReport } from '../../contracts/index.ts';
import { reasonOf } from '../sandbox-failure.ts';
import { leftoverOf, sandboxLabel } from '../leftovers.ts';
import { daemonCall, removeContainer } from './daemon.ts';
import { reapVolumes } from './reap-volumes.ts';

const callMs = 60_000;

/** Removes the containers of ours that may go, known by their labels alone, and then the volumes that nobody needs. */
export async function reapContainers(docker: Docker, filter: ReapFilter): Promise<ReapReport> {
  const found = await daemonCall('list containers', callMs, () =>
    docker.listContainers({ all: true, filters: { label: [sandboxLabel] } }),
  );
  const removed: string[] = [];
  const kept: { id: string; why: string }[] = [];
  for (const container of found) {
    const leftover = leftoverOf(container.Labels);
    if (leftover === null) continue;
    // Its main process ends by itself when its time is up (init.sh): one that still runs was given more.
    const verdict = reapVerdict(leftover, filter, Date.now(), container.State === 'running');
    if (verdict === 'not_asked') continue;
    if (verdict.remove) {
      crashPoint('sandbox.delete:before');
      try {
        await removeContainer(docker, container.Id, callMs);
      } catch (error) {
        if (error instanceof EpisodeError && error.failure.code === 'docker_unreachable') throw error;
        // What an agent made hard to remove must not keep the others.
        kept.push({ id: container.Id, why: reasonOf(error).slice(0, 300) });
        continue;
      }
      crashPoint('sandbox.delete:after');
      removed.push(container.Id);
    } else {
      kept.push({ id: container.Id, why: verdict.why });
    }
  }
  removed.push(...(await reapVolumes(docker, filter)));
  return { removed, kept };
}
