import type Docker from 'dockerode';
import { reasonOf } from '../../sandbox-failure.ts';
import type { Logger } from '../../../observe/index.ts';
import { daemonCall } from '../daemon.ts';
import { buildLabel } from './build-image.ts';

const callMs = 60_000;

interface BuiltImage {
  /** What is removed: the tag of ours, or an image that has no name at all. */
  readonly name: string;
  /** Epoch milliseconds. */
  readonly usedAt: number;
}

const isOurs = (tag: string): boolean => tag.startsWith('rollpool-build:');

async function builtImages(docker: Docker): Promise<BuiltImage[]> {
  const found = await daemonCall('list images', callMs, () =>
    docker.listImages({ filters: JSON.stringify({ label: [buildLabel] }) }),
  );
  const images: BuiltImage[] = [];
  for (const { Id, RepoTags } of found) {
    const tags = (RepoTags ?? []).filter((tag) => tag !== '<none>:<none>');
    // An image that somebody built on ours has the label as well, and a name that is not ours.
    if (tags.length > 0 && !tags.some(isOurs)) continue;
    const image = await daemonCall('inspect image', callMs, async () => docker.getImage(Id).inspect()).catch(
      () => null,
    );
    if (image === null) continue;
    const tagged = Date.parse((image as { Metadata?: { LastTagTime?: string } }).Metadata?.LastTagTime ?? '');
    const usedAt = tagged > 0 ? tagged : Date.parse(image.Created);
    const names = tags.length === 0 ? [Id] : tags.filter(isOurs);
    for (const name of names) images.push({ name, usedAt });
  }
  return images.toSorted((a, b) => a.usedAt - b.usedAt);
}

/**
 * Removes images that were built here, the one that was used longest ago first, until `enough` says so. An image that a
 * container uses stays (the daemon refuses), and so does whatever has another name. Gives how many went.
 */
export async function reclaimImages(
  docker: Docker,
  enough: () => Promise<boolean>,
  log: Logger,
): Promise<number> {
  let removed = 0;
  for (const { name } of await builtImages(docker)) {
    try {
      await daemonCall('remove image', callMs, async () => void (await docker.getImage(name).remove()));
    } catch (error) {
      log.debug({ image: name, why: reasonOf(error) }, 'image kept');
      continue;
    }
    removed += 1;
    log.info({ image: name }, 'removed an image that was built here, for want of disk space');
    if (await enough()) break;
  }
  return removed;
}
