import type Docker from 'dockerode';
import { EpisodeError } from '../../contracts/index.ts';
import { infraFailure, reasonOf, taskFailure } from '../sandbox-failure.ts';
import type { SandboxRequest } from '../sandbox.ts';
import { daemonCall, statusOf } from './daemon.ts';

const inspectMs = 30_000;

export interface BootContext {
  readonly image: string;
  readonly isDefaultImage: boolean;
  readonly request: SandboxRequest;
}

function noBash(image: string): EpisodeError {
  return taskFailure('no_bash', `sandbox.image: ${image} has no bash, which sandboxes need`);
}

/** Why no container was made, in the task's words where the task is at fault. Gives the signal's reason back as it is. */
export function bootFailure(error: unknown, { image, isDefaultImage, request }: BootContext): unknown {
  if (request.signal.aborted && error === request.signal.reason) return error;
  const cause: unknown = error instanceof Error ? (error.cause ?? error) : error;
  const why = reasonOf(cause);
  if (statusOf(cause) === 404 && /no such image/i.test(why)) {
    const hint = isDefaultImage
      ? 'scripts/build-sandbox-image builds it'
      : 'pull or build it on every worker machine';
    return taskFailure('image_missing', `sandbox.image: ${image} is not on this machine: ${hint}`);
  }
  if (/invalid reference format/.test(why)) {
    return taskFailure(
      'image_missing',
      `sandbox.image: ${JSON.stringify(image)} is not the name of an image`,
    );
  }
  if (/bind source path does not exist/.test(why)) {
    const isCli = request.cli_binary !== null && why.includes(request.cli_binary);
    return infraFailure(
      'mount_missing',
      `${isCli ? request.cli_binary : request.gateway_dir} cannot be mounted: the Docker daemon (DOCKER_HOST) must ` +
        'run on this machine and share its files',
      { phase: 'boot', cause: error },
    );
  }
  if (error instanceof EpisodeError) {
    return new EpisodeError({ ...error.failure, phase: 'boot' }, { cause: error });
  }
  return infraFailure('boot_failed', reasonOf(error), { phase: 'boot', cause: error });
}

/** Why a container that was made did not come up. */
export async function startFailure(
  error: unknown,
  container: Docker.Container,
  context: BootContext,
): Promise<unknown> {
  const { image, request } = context;
  if (request.signal.aborted && error === request.signal.reason) return error;
  if (/exec: "bash": executable file not found/.test(reasonOf(error))) return noBash(image);
  const code = error instanceof EpisodeError ? error.failure.code : null;
  if (code === 'sandbox_refused') {
    return taskFailure('image_unfit', `sandbox.image: ${image} cannot be prepared: ${reasonOf(error)}`);
  }
  if (code === 'sandbox_gone') {
    const found = await daemonCall('inspect container', inspectMs, () => container.inspect()).catch(
      () => null,
    );
    // The container's init says so when it finds no bash to run.
    if (found?.State.ExitCode === 127) return noBash(image);
    if (found !== null) {
      const memory = found.State.OOMKilled ? ' (out of memory)' : '';
      return infraFailure(
        'boot_failed',
        `the main process of a container of ${image} ended at once with ${found.State.ExitCode}${memory}`,
        { phase: 'boot', cause: error },
      );
    }
  }
  return bootFailure(error, context);
}
