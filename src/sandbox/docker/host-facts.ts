import { hostname } from 'node:os';
import type Docker from 'dockerode';
import { infraFailure, reasonOf } from '../sandbox-failure.ts';
import { daemonCall } from './daemon.ts';

const probeMs = 10_000;

export interface HostFacts {
  /** CPUs the daemon has to give. */
  readonly cpus: number;
  /** Tells one daemon from another. */
  readonly daemonId: string;
  /** Where the daemon keeps its data, on this machine; null: it is on another. */
  readonly dataDirectory: string | null;
}

interface DaemonInfo {
  readonly OSType?: string;
  readonly OperatingSystem?: string;
  readonly NCPU?: number;
  readonly ID?: string;
  /** The hostname of the daemon's machine. */
  readonly Name?: string;
  readonly DockerRootDir?: string;
}

/** What the daemon is. Rejects (infra) with one clear line why sandboxes cannot run on it. */
export async function lookAtHost(docker: Docker, where: string, signal?: AbortSignal): Promise<HostFacts> {
  let info: DaemonInfo;
  try {
    info = await daemonCall(
      'find the daemon',
      probeMs,
      async () => docker.info() as Promise<DaemonInfo>,
      signal,
    );
  } catch (error) {
    signal?.throwIfAborted();
    throw infraFailure(
      'docker_unreachable',
      `no Docker daemon answers at ${where}: start one, or set DOCKER_HOST (${reasonOf((error as Error).cause ?? error)})`,
      { phase: 'boot', cause: error },
    );
  }
  if (info.OSType !== 'linux') {
    throw infraFailure(
      'docker_unfit',
      `the Docker daemon at ${where} runs ${info.OSType} containers, not linux`,
      { phase: 'boot' },
    );
  }
  if (process.platform !== 'linux' || info.OperatingSystem?.includes('Docker Desktop') === true) {
    throw infraFailure(
      'socket_mount_unsupported',
      `the Docker daemon at ${where} runs in a virtual machine, into which the gateway's Unix socket cannot be ` +
        'mounted: set DOCKER_HOST to a daemon on this Linux machine, or use --sandbox local',
      { phase: 'boot' },
    );
  }
  return {
    cpus: info.NCPU ?? 1,
    daemonId: info.ID ?? where,
    // A socket may lead anywhere, and a worker in a container has a hostname of its own.
    dataDirectory: info.Name === hostname() ? (info.DockerRootDir ?? null) : null,
  };
}
