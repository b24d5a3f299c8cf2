import { lstat } from 'node:fs/promises';
import { join } from 'node:path';
import { EpisodeError } from '../../contracts/index.ts';
import type { Logger } from '../../observe/index.ts';
import { infraFailure, reasonOf } from '../sandbox-failure.ts';
import type { HostFacts } from './host-facts.ts';

/** How a sandbox reaches the gateway: by a socket that is mounted in it, or by a tunnel over an exec. */
export type Way = 'socket' | 'tunnel';

export interface ReachOptions {
  /** Whether the daemon is reached over a network. */
  readonly remote: boolean;
  /** `auto`: the socket where it works, else the tunnel. */
  readonly setting: 'auto' | Way;
  readonly log: Logger;
}

/** What says that the daemon does not share this machine's files. */
const unshared = new Set(['mount_missing', 'socket_mount_unsupported']);

/** Which way a provider's sandboxes go. Once the socket was found not to work, it is the tunnel for good. */
export class Reach {
  readonly #options: ReachOptions;
  #settled: Way | null;

  constructor(options: ReachOptions) {
    this.#options = options;
    const { setting, remote } = options;
    if (setting !== 'auto') this.#settled = setting;
    else this.#settled = remote ? 'tunnel' : null;
  }

  /** Whether it is still open which way works. */
  get isOpen(): boolean {
    return this.#settled === null;
  }

  /** The way to try. Rejects (infra) where the setting asks for one that cannot work. */
  way({ virtualMachine }: HostFacts): Way {
    if (virtualMachine && this.#settled === 'socket') {
      throw infraFailure(
        'socket_mount_unsupported',
        "the Docker daemon runs in a virtual machine, into which the gateway's Unix socket cannot be mounted: set " +
          'ROLLPOOL_SANDBOX_REACH to auto or tunnel, or DOCKER_HOST to a daemon on this Linux machine',
        { phase: 'boot' },
      );
    }
    if (virtualMachine) this.#settled = 'tunnel';
    return this.#settled ?? 'socket';
  }

  /** A sandbox saw the socket. */
  works(): void {
    this.#settled ??= 'socket';
  }

  /** Whether to try once more, by the tunnel, after this error of a sandbox that has `directory` mounted. */
  async turns(error: unknown, directory: string | null): Promise<boolean> {
    if (!(error instanceof EpisodeError) || !unshared.has(error.failure.code)) return false;
    if (this.#options.setting !== 'auto' || directory === null) return false;
    if (this.#settled !== null) return this.#settled === 'tunnel';
    // What is gone on this machine too says nothing about the daemon's.
    const found = await lstat(join(directory, 'gw.sock')).catch(() => null);
    if (found?.isSocket() !== true) return false;
    this.#settled ??= 'tunnel';
    this.#options.log.info(
      { why: reasonOf(error) },
      "the Docker daemon does not share this machine's files: sandboxes reach the gateway by a tunnel from now on",
    );
    return true;
  }
}
