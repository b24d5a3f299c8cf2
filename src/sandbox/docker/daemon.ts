import Docker from 'dockerode';
import { EpisodeError } from '../../contracts/index.ts';
import { infraFailure, reasonOf } from '../sandbox-failure.ts';
import { SshForward, type SshForwardOptions } from './ssh-forward.ts';

/** An error of the daemon as dockerode throws it; `statusCode` is HTTP's, `code` the socket's. */
interface DaemonError extends Error {
  readonly statusCode?: number;
  readonly code?: string;
}

const maxReason = 2_000;

/** A client of a daemon. */
export interface DaemonConnection extends AsyncDisposable {
  readonly docker: Docker;
  /** Whether the daemon is reached over a network, so that it cannot have this machine's files. */
  readonly remote: boolean;
  /** Rejects (infra) with why the way to the daemon is not open; the daemon itself is not asked. */
  ready(): Promise<void>;
}

/**
 * A client of the daemon at `host` (unix, tcp, http, https or ssh); null: what DOCKER_HOST says, else the default socket.
 * TLS by DOCKER_TLS_VERIFY and DOCKER_CERT_PATH is what dockerode finds for DOCKER_HOST; ssh is the user's own.
 */
export function connectDocker(host: string | null, ssh: Omit<SshForwardOptions, 'url'>): DaemonConnection {
  const plain = (docker: Docker, remote: boolean): DaemonConnection => ({
    docker,
    remote,
    ready: async () => {},
    [Symbol.asyncDispose]: async () => {},
  });
  if (host === null) {
    const docker = new Docker();
    const { host: found } = docker.modem as { readonly host?: string };
    return plain(docker, found !== undefined && found !== '');
  }
  if (host.startsWith('unix://')) {
    return plain(new Docker({ socketPath: host.slice('unix://'.length) }), false);
  }
  const url = new URL(host.includes('://') ? host : `tcp://${host}`);
  if (url.protocol === 'ssh:') {
    const forward = new SshForward({ ...ssh, url });
    // The types know a path only; dockerode also takes a function that finds it.
    const socketPath = (() => forward.socketPath()) as unknown as string;
    return {
      docker: new Docker({ socketPath }),
      remote: true,
      ready: () => forward.ready(),
      [Symbol.asyncDispose]: () => forward[Symbol.asyncDispose](),
    };
  }
  const docker = new Docker({
    host: url.hostname,
    ...(url.port === '' ? {} : { port: url.port }),
    ...(url.protocol === 'https:' || url.port === '2376' ? { protocol: 'https' as const } : {}),
  });
  return plain(docker, true);
}

export function statusOf(error: unknown): number | undefined {
  return (error as Partial<DaemonError> | null | undefined)?.statusCode;
}

/** Whether the daemon itself could not be reached or hung up. */
function isUnreachable(error: unknown): boolean {
  const { statusCode, code, message } = error as DaemonError;
  if (statusCode !== undefined) return false;
  return (
    ['ECONNREFUSED', 'ENOENT', 'EACCES', 'ECONNRESET', 'EPIPE', 'ENOTFOUND', 'ETIMEDOUT'].includes(
      code ?? '',
    ) || message.includes('socket hang up')
  );
}

/** Maps what dockerode threw to an infra failure that says in one line what was being done and why it failed. */
function daemonFailure(doing: string, error: unknown): EpisodeError {
  if (error instanceof EpisodeError) return error;
  // It may hold a path of an agent's making.
  const why = reasonOf(error).slice(0, maxReason);
  if (isUnreachable(error)) {
    return infraFailure('docker_unreachable', `the Docker daemon does not answer (${doing}): ${why}`, {
      cause: error,
    });
  }
  if (statusOf(error) === 404) {
    return infraFailure('sandbox_gone', `the sandbox is gone (${doing}): ${why}`, { cause: error });
  }
  return infraFailure('docker_failed', `Docker failed (${doing}): ${why}`, { cause: error });
}

/** Runs one call to the daemon with a deadline. Rejects with an infra failure, or with the signal's own reason. */
export async function daemonCall<T>(
  doing: string,
  deadlineMs: number,
  call: () => Promise<T>,
  signal?: AbortSignal,
): Promise<T> {
  signal?.throwIfAborted();
  let timer: NodeJS.Timeout | undefined;
  let onAbort: (() => void) | undefined;
  const interrupted = new Promise<never>((_resolve, reject) => {
    timer = setTimeout(
      () =>
        reject(
          infraFailure('docker_silent', `the Docker daemon did not answer in ${deadlineMs} ms (${doing})`),
        ),
      deadlineMs,
    );
    onAbort = () => reject(signal?.reason as Error);
    signal?.addEventListener('abort', onAbort, { once: true });
  });
  try {
    return await Promise.race([call(), interrupted]);
  } catch (error) {
    if (signal?.aborted && error === signal.reason) throw error;
    throw daemonFailure(doing, error);
  } finally {
    clearTimeout(timer);
    if (onAbort !== undefined) signal?.removeEventListener('abort', onAbort);
  }
}

/** Removes a container with all it has. One that is not there, or is being removed by somebody else, counts as removed. */
export async function removeContainer(docker: Docker, id: string, deadlineMs: number): Promise<void> {
  const deadline = Date.now() + deadlineMs;
  const container = docker.getContainer(id);
  for (;;) {
    try {
      await daemonCall('remove container', Math.max(1, deadline - Date.now()), async () => {
        await container.remove({ force: true, v: true });
      });
      return;
    } catch (error) {
      const status = statusOf((error as Error).cause);
      if (status === 404) return;
      // 409: another removal is in progress. Only its end is a removal.
      if (status !== 409 || Date.now() > deadline) throw error;
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
  }
}
