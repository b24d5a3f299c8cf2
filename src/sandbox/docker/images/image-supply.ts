import { tmpdir } from 'node:os';
import type Docker from 'dockerode';
import { EpisodeError, type SandboxSpec } from '../../../contracts/index.ts';
import type { Logger } from '../../../observe/index.ts';
import { infraFailure, reasonOf, taskFailure } from '../../sandbox-failure.ts';
import { daemonCall, statusOf } from '../daemon.ts';
import { buildImage } from './build-image.ts';
import { buildTag } from './build-context.ts';
import { lockOnHost } from './host-lock.ts';
import { imageFailure } from './image-failure.ts';
import { isReference, parseReference } from './image-reference.ts';
import { ProgressLines } from './progress-lines.ts';
import { pullImage } from './pull-image.ts';
import { SharedWork } from './shared-work.ts';

const inspectMs = 30_000;
/** A failure is given again for so long, so that the many episodes of a task do not ask a registry for each. */
const rememberMs = 30_000;
const mebibyte = 2 ** 20;

/** Made by a script of ours and in no registry. */
export const ownImage = 'rollpool-sandbox:bookworm';

export interface ImageSupplyOptions {
  readonly docker: Docker;
  readonly log: Logger;
  /** Image of tasks that name none. */
  readonly defaultImage: string;
  /** Seconds that a pull or a build may take. */
  readonly seconds: number;
  /** Names the daemon: locks are for one daemon. */
  readonly daemonId: () => Promise<string>;
  /** Rejects when there is no space for one more. */
  readonly ensureSpace: () => Promise<void>;
  /** Where lock files are. Default: the system's directory for temporary files. */
  readonly lockDirectory?: string | undefined;
  /** Directory of Docker's own configuration. Default: `~/.docker`. */
  readonly dockerConfig?: string | undefined;
}

interface Remembered {
  readonly error: EpisodeError;
  readonly until: number;
}

/** Brings the images of tasks to the daemon: pulled or built, once however many ask, in this process and on this host. */
export class ImageSupply implements AsyncDisposable {
  readonly #options: ImageSupplyOptions;
  readonly #work = new SharedWork();
  /** Images that were found or brought; one may be removed meanwhile, which shows when a container is made. */
  readonly #present = new Set<string>();
  readonly #failed = new Map<string, Remembered>();

  constructor(options: ImageSupplyOptions) {
    this.#options = options;
  }

  /** What a container of `spec` is made from. */
  nameOf(spec: SandboxSpec): string {
    return spec.build === undefined ? (spec.image ?? this.#options.defaultImage) : buildTag(spec.build);
  }

  /** The image is gone after all: the next to ask looks again. */
  forget(name: string): void {
    this.#present.delete(name);
  }

  /** Resolves when the image of `spec` is there. Rejects with the failure, or with the signal's reason. */
  async provide(spec: SandboxSpec, signal: AbortSignal): Promise<void> {
    signal.throwIfAborted();
    if (spec.image !== undefined && spec.build !== undefined) {
      throw taskFailure('bad_task', 'sandbox.build: is instead of sandbox.image, not beside it');
    }
    const name = this.nameOf(spec);
    if (this.#present.has(name)) return;
    if (!isReference(name)) {
      throw taskFailure(
        'image_missing',
        `sandbox.image: ${JSON.stringify(name)} is not the name of an image`,
      );
    }
    const failed = this.#failed.get(name);
    if (failed !== undefined && failed.until > Date.now()) throw failed.error;
    this.#failed.delete(name);
    await this.#work.join(name, (stop) => this.#bring(name, spec, stop), signal);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#work.stop();
  }

  async #bring(name: string, spec: SandboxSpec, stop: AbortSignal): Promise<void> {
    const seconds = spec.build?.seconds ?? this.#options.seconds;
    const deadline = AbortSignal.timeout(Math.min(seconds * 1000, 2 ** 31 - 1));
    const signal = AbortSignal.any([stop, deadline]);
    try {
      if (!(await this.#isThere(name, signal))) await this.#bringOnce(name, spec, signal);
      this.#present.add(name);
    } catch (error) {
      stop.throwIfAborted();
      const field = spec.build === undefined ? 'sandbox.image' : 'sandbox.build';
      const failure = deadline.aborted
        ? infraFailure('image_timeout', `${field}: ${name} was not there in ${seconds} s`, {
            phase: 'boot',
            cause: error,
          })
        : imageFailure(error, { name, field });
      this.#failed.set(name, { error: failure, until: Date.now() + rememberMs });
      throw failure;
    }
  }

  async #bringOnce(name: string, spec: SandboxSpec, signal: AbortSignal): Promise<void> {
    const { log } = this.#options;
    await using _lock = await this.#lock(name, signal);
    // Another process may have brought it while this one waited.
    if (await this.#isThere(name, signal)) return;
    if (name === ownImage) {
      throw taskFailure(
        'image_missing',
        `sandbox.image: ${name} is not on this machine: scripts/build-sandbox-image builds it`,
      );
    }
    await this.#options.ensureSpace();
    const startedAt = performance.now();
    const building = spec.build !== undefined;
    log.info({ image: name }, building ? 'building an image' : 'pulling an image');
    if (spec.build === undefined) await this.#pull(name, signal);
    else await this.#build(name, spec.build, signal);
    const size = await this.#size(name, signal);
    // A daemon that died in between ended its stream as if all were well.
    if (size === null)
      throw infraFailure('image_failed', `${name} is not there after it was brought`, { phase: 'boot' });
    const seconds = Number(((performance.now() - startedAt) / 1000).toFixed(1));
    log.info(
      { image: name, seconds, mb: Math.ceil(size / mebibyte) },
      building ? 'image built' : 'image pulled',
    );
  }

  async #pull(name: string, signal: AbortSignal): Promise<void> {
    const lines = new ProgressLines(this.#options.log, 'pulling an image');
    await pullImage(this.#options.docker, name, {
      dockerConfig: this.#options.dockerConfig,
      signal,
      onProgress: ({ layers, layers_done, bytes, bytes_total }) =>
        lines.say({
          image: name,
          percent: bytes_total === 0 ? 0 : Math.floor((100 * bytes) / bytes_total),
          layers: `${layers_done}/${layers}`,
          mb: Math.floor(bytes / mebibyte),
        }),
    });
  }

  async #build(name: string, build: NonNullable<SandboxSpec['build']>, signal: AbortSignal): Promise<void> {
    const lines = new ProgressLines(this.#options.log, 'building an image');
    await buildImage(this.#options.docker, build, {
      dockerConfig: this.#options.dockerConfig,
      signal,
      onStep: (step) => lines.say({ image: name, step }),
    });
  }

  /** Whether it is there; one that was built here is marked as used now, for who looks for the oldest. */
  async #isThere(name: string, signal: AbortSignal): Promise<boolean> {
    if ((await this.#size(name, signal)) === null) return false;
    const { repository, tag } = parseReference(name);
    if (repository === 'rollpool-build') {
      const image = this.#options.docker.getImage(name);
      await daemonCall('mark image', inspectMs, () => image.tag({ repo: repository, tag }), signal).catch(
        () => undefined,
      );
    }
    return true;
  }

  /** Bytes of the image; null when it is not there. */
  async #size(name: string, signal: AbortSignal): Promise<number | null> {
    const { docker } = this.#options;
    try {
      return (
        await daemonCall('inspect image', inspectMs, async () => docker.getImage(name).inspect(), signal)
      ).Size;
    } catch (error) {
      signal.throwIfAborted();
      const cause: unknown = error instanceof Error ? (error.cause ?? error) : error;
      if (statusOf(cause) === 404) return null;
      throw error;
    }
  }

  async #lock(name: string, signal: AbortSignal): Promise<AsyncDisposable> {
    const { log } = this.#options;
    try {
      return await lockOnHost({
        directory: this.#options.lockDirectory ?? tmpdir(),
        name: `${await this.#options.daemonId()} ${name}`,
        onWait: () =>
          log.info({ image: name }, 'another process of this machine brings the image: waiting for it'),
        signal,
      });
    } catch (error) {
      signal.throwIfAborted();
      if (error instanceof EpisodeError) throw error;
      log.warn({ image: name, why: reasonOf(error) }, 'images are brought without a lock between processes');
      return { [Symbol.asyncDispose]: async () => {} };
    }
  }
}
