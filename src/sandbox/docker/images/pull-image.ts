import type Docker from 'dockerode';
import { readEvents } from './daemon-events.ts';
import { imageFailure } from './image-failure.ts';
import { parseReference } from './image-reference.ts';
import { findLogin } from './registry-login.ts';

/** How far a pull is. Layers that are there already count as done and have no bytes. */
export interface PullProgress {
  readonly layers: number;
  readonly layers_done: number;
  readonly bytes: number;
  readonly bytes_total: number;
}

interface Layer {
  current: number;
  total: number;
  done: boolean;
}

export interface PullOptions {
  readonly onProgress: (progress: PullProgress) => void;
  /** Directory of Docker's own configuration. Default: `~/.docker`. */
  readonly dockerConfig?: string | undefined;
  readonly signal: AbortSignal;
}

/** Pulls an image as `docker pull` does. Rejects with the failure, or with the signal's reason. */
export async function pullImage(docker: Docker, image: string, options: PullOptions): Promise<void> {
  const { signal } = options;
  const { repository, tag, registry } = parseReference(image);
  const layers = new Map<string, Layer>();
  try {
    const login = await findLogin(registry, options.dockerConfig);
    signal.throwIfAborted();
    const stream = await docker.createImage(login ?? undefined, {
      fromImage: repository,
      tag,
      abortSignal: signal,
    });
    await readEvents(stream, ({ id, status, progressDetail }) => {
      if (id === undefined || status === undefined || /^Pulling from/.test(status)) return;
      const layer = layers.get(id) ?? { current: 0, total: 0, done: false };
      layers.set(id, layer);
      if (status === 'Downloading') {
        layer.current = progressDetail?.current ?? layer.current;
        layer.total = progressDetail?.total ?? layer.total;
      }
      if (status === 'Download complete') layer.current = layer.total;
      layer.done = status === 'Pull complete' || status === 'Already exists';
      const all = [...layers.values()];
      options.onProgress({
        layers: all.length,
        layers_done: all.filter(({ done }) => done).length,
        bytes: all.reduce((sum, { current }) => sum + current, 0),
        bytes_total: all.reduce((sum, { total }) => sum + total, 0),
      });
    });
  } catch (error) {
    signal.throwIfAborted();
    throw imageFailure(error, { name: image, field: 'sandbox.image' });
  }
}
