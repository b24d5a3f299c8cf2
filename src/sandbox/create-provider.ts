import type { Logger } from '../observe/index.ts';
import { DockerProvider } from './docker/docker-provider.ts';
import { LocalProvider } from './local/local-provider.ts';
import type { SandboxProvider } from './sandbox.ts';

export type SandboxProviderName = 'docker' | 'local';

export interface SandboxProviderOptions {
  /** Docker image of tasks that name none. Default: `rollpool-sandbox:bookworm`. */
  readonly defaultImage?: string | null;
  /** `unix://PATH` of the Docker daemon. Default: what DOCKER_HOST says, else the default socket. */
  readonly dockerHost?: string | null;
  /** Processes and threads a Docker sandbox may have at once. Default: 512. */
  readonly pidsLimit?: number;
  /** Where directories of Docker sandboxes that wait for their episode are made. Default: none is made ahead. */
  readonly runtimeDirectory?: string | null;
  /** Where local sandboxes are made. Default: the system's directory for temporary files. */
  readonly directory?: string;
  /** PATH of commands in local sandboxes. Default: the usual system directories and that of this Node. */
  readonly path?: string;
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
    case 'local':
      return new LocalProvider(options);
  }
}
