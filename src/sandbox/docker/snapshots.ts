import type Docker from 'dockerode';
import type { Owner } from '../../contracts/index.ts';
import { labelsOf, leftoverOf } from '../leftovers.ts';
import type { KeptSnapshot } from '../sandbox.ts';
import { daemonCall, statusOf } from './daemon.ts';

const callMs = 60_000;
/** Repository of kept final states; the tag names the attempt. */
const repository = 'rollpool-kept';
const snapshotLabel = 'io.rollpool.snapshot';

/**
 * Keeps a container's files as an image of this daemon and gives its name. Kept by the daemon itself, so only what changed
 * takes room. Mounts and what lies in memory (/tmp) are not in it.
 */
export async function commitContainer(
  container: Docker.Container,
  owner: Owner,
  timeoutMs: number,
): Promise<string> {
  const tag = owner.nonce.replace(/[^a-zA-Z0-9_.-]/g, '_').slice(0, 128);
  const now = Date.now();
  // Labels of the container's own would say whose the sandbox was when it was made ahead of its episode.
  const labels = { ...labelsOf({ owner, expires_at: 0 }), [snapshotLabel]: String(now) };
  const changes = Object.entries(labels).map(([name, value]) => `LABEL ${name}=${JSON.stringify(value)}`);
  await daemonCall('keep the final state', timeoutMs, async () => {
    await container.commit({ repo: repository, tag, pause: true, changes });
  });
  return `${repository}:${tag}`;
}

/** Kept final states of a pool on this daemon, newest first. */
export async function listKept(docker: Docker, pool: string): Promise<KeptSnapshot[]> {
  const images = await daemonCall('list kept states', callMs, () =>
    docker.listImages({ filters: { label: [snapshotLabel] } }),
  );
  const kept = images.flatMap((image): KeptSnapshot[] => {
    const labels = image.Labels ?? {};
    const leftover = leftoverOf(labels);
    const name = image.RepoTags?.find((tag) => tag.startsWith(`${repository}:`));
    if (leftover === null || name === undefined || leftover.owner.pool !== pool) return [];
    return [{ name, owner: leftover.owner, created_at: Number(labels[snapshotLabel]) }];
  });
  return kept.sort((a, b) => b.created_at - a.created_at);
}

/** Removes a kept state. One that is not there is removed; one that a sandbox still runs on goes with a later removal. */
export async function removeKept(docker: Docker, name: string): Promise<void> {
  if (!name.startsWith(`${repository}:`)) throw new Error(`${name} is not a kept final state`);
  try {
    await daemonCall('remove a kept state', callMs, async () => {
      await docker.getImage(name).remove();
    });
  } catch (error) {
    const status = statusOf(error instanceof Error ? (error.cause ?? error) : error);
    if (status !== 404 && status !== 409) throw error;
  }
}
