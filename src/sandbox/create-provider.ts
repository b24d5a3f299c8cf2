import type { Logger } from '../observe/index.ts';
import { DockerProvider } from './docker/docker-provider.ts';
import type { E2bProviderOptions } from './e2b/e2b-provider.ts';
import { LateE2bProvider } from './e2b/late-provider.ts';
import type { EgressSettings } from './egress/index.ts';
import { LocalProvider } from './local/local-provider.ts';
import type { SandboxProvider } from './sandbox.ts';

export type SandboxProviderName = 'docker' | 'e2b' | 'local';

export interface SandboxProviderOptions {
  /** Docker image of tasks that name none. Default: `rollpool-sandbox:bookworm`. */
  readonly defaultImage?: string | null;
  /** Address of the Docker daemon. Default: what DOCKER_HOST says, else the default socket. */
  readonly dockerHost?: string | null;
  /** How Docker sandboxes reach the gateway. Default: `auto`, a mounted socket where that works, else a tunnel. */
  readonly reach?: 'auto' | 'socket' | 'tunnel';
  /** Processes and threads a Docker sandbox may have at once. Default: 512. */
  readonly pidsLimit?: number;
  /** Where directories of Docker sandboxes that wait for their episode are made. Default: none is made ahead. */
  readonly runtimeDirectory?: string | null;
  /** Docker sandboxes being made at once, whoever they are for. Default: 2 x cores. */
  readonly bootsAtOnce?: number;
  /** Seconds that the pull or the build of a Docker image may take. Default: 1800. */
  readonly imageSeconds?: number;
  /** Megabytes (2^20) that a Docker sandbox may write where its task says nothing. Default: 10240. */
  readonly diskMb?: number;
  /** Megabytes (2^20) that must be free on the Docker daemon's disk before anything starts. Default: 0, which is not to look. */
  readonly diskFreeMb?: number;
  /** How Docker sandboxes with an allow list reach its hosts. */
  readonly egress?: EgressSettings;
  /** Where local sandboxes are made. Default: the system's directory for temporary files. */
  readonly directory?: string;
  /** PATH of commands in local sandboxes. Default: the usual system directories and that of this Node. */
  readonly path?: string;
  /** The E2B service, and what its sandboxes are made from; without it there is none. */
  readonly e2b?: Omit<E2bProviderOptions, 'log'> | null;
  readonly log?: Logger;
}

/** A provider by its name. It does nothing until it is probed or asked for a sandbox. */
export function createSandboxProvider(
  name: SandboxProviderName,
  options: SandboxProviderOptions = {},
): SandboxProvider {
  switch (name) {
    case 'docker':
      return new DockerProvider(options);
    case 'e2b':
      if (options.e2b === undefined || options.e2b === null) throw new Error('E2B_API_KEY is not set');
      return new LateE2bProvider({
        ...options.e2b,
        ...(options.log === undefined ? {} : { log: options.log }),
      });
    case 'local':
      return new LocalProvider(options);
  }
}
