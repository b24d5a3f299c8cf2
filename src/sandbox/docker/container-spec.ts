import type Docker from 'dockerode';
import { labelsOf } from '../leftovers.ts';
import { taskFailure } from '../sandbox-failure.ts';
import type { SandboxRequest } from '../sandbox.ts';
import { cliMount, cliVolumeMount } from './cli-mount.ts';
import type { HostFacts } from './host-facts.ts';
import { homes, uids } from './users.ts';

/** Where the directory of the gateway's socket is inside. */
export const gatewayMount = '/gw';
export const gatewaySocket = `${gatewayMount}/gw.sock`;

const mebibyte = 2 ** 20;

export interface SpecOptions {
  readonly image: string;
  /** Processes and threads a sandbox may have at once. */
  readonly pidsLimit: number;
  readonly host: HostFacts;
  /** Epoch milliseconds. */
  readonly expiresAt: number;
  /** Bytes that may be written to the container's own layer. */
  readonly diskBytes: number;
  /** Whether the daemon is to see to that. */
  readonly quota: boolean;
  /** Volume of the daemon that has the CLI, where it cannot be mounted from this machine. */
  readonly cliVolume?: string | null;
}

/** Bytes of /dev/shm, as Docker has it by default. */
const sharedBytes = 64 * mebibyte;
/** The least that a file with something in it takes of a file system in memory. */
const pageBytes = 4096;

/**
 * A file system in memory outlives who filled it, and so what it takes is bounded: its bytes, and its files, which cost the
 * container's memory although they are empty. Else an agent could leave no memory to its verifier.
 */
function memoryFiles(bytes: number, flags: string): string {
  return `rw,${flags},nosuid,nodev,mode=1777,size=${bytes},nr_inodes=${Math.ceil(bytes / pageBytes)}`;
}

/** Deterministic, so that a container whose creation was never answered can be found by its name. */
function containerName(nonce: string): string {
  return `rollpool-${nonce.replace(/[^a-zA-Z0-9_.-]/g, '_')}`;
}

/** Refuses what a task asks for and this provider cannot give. */
export function checkSpec(request: SandboxRequest): void {
  const { workdir } = request.spec;
  if (/[\x00-\x1f\x7f]/.test(workdir) || workdir.split('/').includes('..') || /^\/+$/.test(workdir)) {
    throw taskFailure(
      'bad_workdir',
      `sandbox.workdir: ${JSON.stringify(workdir)} cannot be a working directory`,
    );
  }
}

/** Whether /tmp is kept in memory. Not where the working directory is below it: the archive API cannot see a tmpfs. */
export function hasMemoryTmp(workdir: string): boolean {
  return !`${workdir}/`.startsWith('/tmp/');
}

/** The container of a sandbox: what it may use, what it can reach, and whose it is. */
export function containerOptions(
  request: SandboxRequest,
  options: SpecOptions,
): Docker.ContainerCreateOptions {
  const { spec, owner } = request;
  const memory = spec.memory_mb * mebibyte;
  const mounts: Docker.MountConfig = [];
  if (request.gateway_dir !== null) {
    mounts.push({ Type: 'bind', Source: request.gateway_dir, Target: gatewayMount, ReadOnly: true });
  }
  if (request.cli_binary !== null) {
    mounts.push({ Type: 'bind', Source: request.cli_binary, Target: cliMount, ReadOnly: true });
  }
  if (options.cliVolume) mounts.push(cliVolumeMount(options.cliVolume, true));
  return {
    name: containerName(owner.nonce),
    Image: options.image,
    Hostname: 'sandbox',
    User: '0:0',
    WorkingDir: '/',
    // The script comes on stdin (control-channel.ts): as an argument it would fill every list of processes.
    Entrypoint: [
      'bash',
      '-s',
      '--',
      spec.workdir,
      String(uids.agent),
      homes.agent,
      String(uids.grader),
      homes.grader,
      String(Math.max(1, Math.ceil(request.ttl_seconds))),
      gatewaySocket,
    ],
    Cmd: [],
    // The attached stdin is the container's life line (init.sh): it closes when this worker goes.
    OpenStdin: true,
    StdinOnce: true,
    AttachStdin: true,
    AttachStdout: true,
    AttachStderr: true,
    Healthcheck: { Test: ['NONE'] },
    Labels: labelsOf({ owner, expires_at: options.expiresAt }),
    HostConfig: {
      Init: true,
      NetworkMode: spec.network === 'open' ? 'bridge' : 'none',
      Memory: memory,
      MemorySwap: memory,
      NanoCpus: Math.round(Math.min(spec.cpus, options.host.cpus) * 1e9),
      PidsLimit: options.pidsLimit,
      CapDrop: ['ALL'],
      // For root alone: to own, kill and set up what the agent's user has. Other users hold no capability and cannot
      // gain one (no-new-privileges).
      CapAdd: ['CHOWN', 'DAC_OVERRIDE', 'FOWNER', 'KILL', 'SETGID', 'SETUID'],
      SecurityOpt: ['no-new-privileges'],
      Mounts: mounts,
      Tmpfs: {
        '/dev/shm': memoryFiles(sharedBytes, 'noexec'),
        ...(hasMemoryTmp(spec.workdir) ? { '/tmp': memoryFiles(Math.floor(memory / 2), 'exec') } : {}),
      },
      // Shared memory of System V goes with the last process that has it, and is not left behind.
      Sysctls: options.host.userNamespace ? {} : { 'kernel.shm_rmid_forced': '1' },
      Ulimits: [
        { Name: 'core', Soft: 0, Hard: 0 },
        // The kernel ends who writes a file that is larger than the whole disk, at once.
        { Name: 'fsize', Soft: options.diskBytes, Hard: options.diskBytes },
      ],
      ...(options.quota ? { StorageOpt: { size: String(options.diskBytes) } } : {}),
      LogConfig: { Type: 'json-file', Config: { 'max-size': '1m', 'max-file': '1' } },
      AutoRemove: false,
      RestartPolicy: { Name: 'no' },
    },
  };
}
