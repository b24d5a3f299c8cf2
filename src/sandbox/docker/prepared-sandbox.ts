import { link } from 'node:fs/promises';
import { join } from 'node:path';
import { EpisodeError } from '../../contracts/index.ts';
import { infraFailure, reasonOf } from '../sandbox-failure.ts';
import type { AssignRequest, PreparedSandbox, Sandbox } from '../sandbox.ts';
import type { ControlChannel } from './control-channel.ts';
import { socketUnseen } from './gateway-directory.ts';

const answerMs = 30_000;

export interface PreparedParts {
  readonly sandbox: Sandbox;
  readonly control: ControlChannel;
  /** The directory on this machine that the container has instead of a session's; there is no socket in it yet. */
  readonly directory: string;
}

/**
 * A container that waits for an episode. Its gateway directory is its own, and the session's socket gets a second name
 * (a hard link) in it: what is mounted in a container cannot be changed once it runs.
 *
 * Its labels cannot be changed either. They keep naming the worker, and as run what the request to prepare it said, so a
 * sweep by run does not find it. The verdict by worker and by expiry stays right: a dead worker's goes, and one that runs
 * past the time on its label was given more (its own main process ends it when its time is up).
 */
export class PreparedDockerSandbox implements PreparedSandbox {
  readonly id: string;
  readonly sandbox: Sandbox;
  readonly #parts: PreparedParts;
  #assigned = false;

  constructor(parts: PreparedParts) {
    this.#parts = parts;
    this.sandbox = parts.sandbox;
    this.id = parts.sandbox.id;
  }

  async check(timeout_ms: number): Promise<boolean> {
    return this.#parts.control.ask('ping', '', timeout_ms).then(
      () => true,
      () => false,
    );
  }

  async assign(request: AssignRequest): Promise<Sandbox> {
    if (this.#assigned) throw new Error(`the ready sandbox ${this.id} was assigned before`);
    this.#assigned = true;
    try {
      request.signal.throwIfAborted();
      await this.#enter(request.gateway_dir, Math.max(1, Math.ceil(request.ttl_seconds)));
      request.signal.throwIfAborted();
      return this.sandbox;
    } catch (error) {
      // One that cannot be removed now is left to the reaper; the first error is the one to tell.
      await Promise.allSettled([this.sandbox[Symbol.asyncDispose]()]);
      throw error;
    }
  }

  /** Disposes of a sandbox that nobody took; one that was assigned belongs to its episode. */
  async [Symbol.asyncDispose](): Promise<void> {
    if (!this.#assigned) await this.sandbox[Symbol.asyncDispose]();
  }

  async #enter(gatewayDir: string, seconds: number): Promise<void> {
    const { control, directory } = this.#parts;
    try {
      await link(join(gatewayDir, 'gw.sock'), join(directory, 'gw.sock'));
    } catch (cause) {
      const elsewhere = (cause as NodeJS.ErrnoException).code === 'EXDEV';
      throw infraFailure(
        'socket_link_failed',
        elsewhere
          ? `ready sandboxes (${directory}) and the gateway's sockets (${gatewayDir}) must be on one file system`
          : `a ready sandbox does not get the gateway's socket: ${reasonOf(cause)}`,
        { phase: 'boot', cause },
      );
    }
    const found = await control.ask('enter', String(seconds), answerMs).catch((error: unknown) => {
      if (!(error instanceof EpisodeError)) throw error;
      throw new EpisodeError({ ...error.failure, phase: 'boot' }, { cause: error });
    });
    if (found !== 'socket') throw socketUnseen(directory);
  }
}
