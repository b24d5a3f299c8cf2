import type Docker from 'dockerode';
import { EpisodeError } from '../../contracts/index.ts';
import { reasonOf } from '../sandbox-failure.ts';
import { daemonCall } from './daemon.ts';
import type { HostFacts } from './host-facts.ts';

const lookMs = 30_000;
const answerMs = 10_000;

/** Bytes in a container's own layer; null: the daemon is well and yet could not count them in 30 s. Rejects when it is not. */
export async function writtenBytes(container: Docker.Container): Promise<number | null> {
  try {
    const found = (await daemonCall('look at the disk', lookMs, () =>
      container.inspect({ size: true } as Docker.ContainerInspectOptions),
    )) as { readonly SizeRw?: number };
    return found.SizeRw ?? 0;
  } catch (error) {
    if (!(error instanceof EpisodeError) || error.failure.code !== 'docker_silent') throw error;
    // So many files that counting them takes for ever, or a daemon that is slow with everything?
    await daemonCall('look at the container', answerMs, () => container.inspect());
    return null;
  }
}

/** Whether the daemon may be able to limit a container's layer itself: by project quotas, which only some XFS mounts have. */
export function mayHaveQuota({ storage }: HostFacts): boolean {
  return storage.driver === 'overlay2' && storage.fileSystem === 'xfs';
}

/** Whether the daemon refused a container because it cannot limit its layer. */
export function refusesQuota(error: unknown): boolean {
  return /--storage-opt|pquota|project quota/i.test(reasonOf(error));
}
