import { availableParallelism } from 'node:os';
import type Docker from 'dockerode';
import PQueue from 'p-queue';
import { crashPoint, type Logger } from '../../observe/index.ts';
import { bootFailure, startFailure, type BootContext } from './boot-failure.ts';
import { ControlChannel } from './control-channel.ts';
import { daemonCall, removeContainer } from './daemon.ts';

const callMs = 120_000;
const removeMs = 60_000;

/** A container whose main process has prepared it. */
export interface BootedContainer {
  readonly container: Docker.Container;
  readonly control: ControlChannel;
  /** Whether the gateway's socket is seen inside. */
  readonly seesSocket: boolean;
}

/**
 * Makes and starts containers, and leaves none behind where that fails or is given up. So many at once, however many episodes
 * run and whoever they are for: a daemon that gets more of them answers each later, and then not at all.
 */
export class ContainerBoot implements AsyncDisposable {
  readonly #places: PQueue;
  readonly #docker: Docker;
  readonly #log: Logger;
  /** Creations that were given up: the daemon may still finish them, and then they have to go. */
  readonly #abandoned = new Set<Promise<void>>();

  /** `atOnce` default: 2 x cores. */
  constructor(docker: Docker, log: Logger, atOnce: number = 2 * availableParallelism()) {
    this.#places = new PQueue({ concurrency: atOnce });
    this.#docker = docker;
    this.#log = log;
  }

  async boot(options: Docker.ContainerCreateOptions, context: BootContext): Promise<BootedContainer> {
    const leave = await this.#enter(context.request.signal);
    try {
      return await this.#boot(options, context);
    } finally {
      leave();
    }
  }

  /** Removes a container that nobody will use. Never rejects: what cannot be removed is left to the reaper. */
  async discard(container: Docker.Container): Promise<void> {
    await removeContainer(this.#docker, container.id, removeMs).catch((cause: unknown) =>
      this.#log.warn({ err: cause, container: container.id }, 'left a container behind'),
    );
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all(this.#abandoned);
  }

  /**
   * Waits for a place. Only the wait is the queue's: it would give the signal's reason for a boot that is under way too, and
   * what that had made would be nobody's.
   */
  async #enter(signal: AbortSignal): Promise<() => void> {
    return new Promise((resolve, reject) => {
      this.#places
        .add(() => new Promise<void>((leave) => resolve(leave)), { signal })
        .catch((error: unknown) => reject(error as Error));
    });
  }

  async #boot(options: Docker.ContainerCreateOptions, context: BootContext): Promise<BootedContainer> {
    crashPoint('sandbox.create:before');
    const container = await this.#create(options, context);
    try {
      const booted = await this.#start(container, context);
      crashPoint('sandbox.create:after');
      return booted;
    } catch (error) {
      await this.discard(container);
      throw error;
    }
  }

  async #create(options: Docker.ContainerCreateOptions, context: BootContext): Promise<Docker.Container> {
    const creation = this.#docker.createContainer(options);
    try {
      return await daemonCall('create container', callMs, () => creation, context.request.signal);
    } catch (error) {
      const abandoned = creation
        .then(
          (container) => removeContainer(this.#docker, container.id, removeMs),
          () => undefined,
        )
        .catch(() => undefined)
        .finally(() => this.#abandoned.delete(abandoned));
      this.#abandoned.add(abandoned);
      throw bootFailure(error, context);
    }
  }

  /** Starts the container and waits until its main process has prepared it. */
  async #start(container: Docker.Container, context: BootContext): Promise<BootedContainer> {
    const { signal } = context.request;
    let control: ControlChannel | undefined;
    try {
      const stream = await daemonCall(
        'attach to container',
        callMs,
        () => container.attach({ stream: true, stdin: true, stdout: true, stderr: true, hijack: true }),
        signal,
      );
      stream.on('error', () => undefined);
      control = new ControlChannel(stream as ConstructorParameters<typeof ControlChannel>[0]);
      await daemonCall('start container', callMs, () => container.start(), signal);
      const found = await control.ready(callMs, signal);
      return { container, control, seesSocket: found === 'socket' };
    } catch (error) {
      control?.close();
      throw await startFailure(error, container, context);
    }
  }
}
