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
  /** Whether its containers run in a virtual machine that does not share this machine's sockets. */
  readonly virtualMachine: boolean;
  /** Whether its root is another user of the machine: kernels before 5.19 then let no container set its own parameters. */
  readonly userNamespace: boolean;
  /** How it keeps the layers of containers. */
  readonly storage: { readonly driver: string; readonly fileSystem: string };
}

interface DaemonInfo {
  readonly OSType?: string;
  readonly OperatingSystem?: string;
  readonly NCPU?: number;
  readonly ID?: string;
  /** The hostname of the daemon's machine. */
  readonly Name?: string;
  readonly DockerRootDir?: string;
  readonly SecurityOptions?: readonly string[];
  readonly Driver?: string;
  readonly DriverStatus?: readonly (readonly [string, string])[];
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
  return {
    cpus: info.NCPU ?? 1,
    daemonId: info.ID ?? where,
    virtualMachine: process.platform !== 'linux' || info.OperatingSystem?.includes('Docker Desktop') === true,
    userNamespace: (info.SecurityOptions ?? []).some((option) => /^name=(rootless|userns)\b/.test(option)),
    // A socket may lead anywhere, and a worker in a container has a hostname of its own.
    storage: {
      driver: info.Driver ?? '',
      fileSystem: info.DriverStatus?.find(([name]) => name === 'Backing Filesystem')?.[1] ?? '',
    },
    dataDirectory: info.Name === hostname() ? (info.DockerRootDir ?? null) : null,
  };
}
