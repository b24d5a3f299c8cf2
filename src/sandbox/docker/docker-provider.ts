import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type Docker from 'dockerode';
import { EpisodeError, type ReapFilter, type ReapReport, type SandboxSpec } from '../../contracts/index.ts';
import { silentLogger, type Logger } from '../../observe/index.ts';
import { openSandboxEgress, type EgressSettings } from '../egress/index.ts';
import type {
  KeptSnapshot,
  PreparedSandbox,
  PrepareRequest,
  Sandbox,
  SandboxProvider,
  SandboxRequest,
} from '../sandbox.ts';
import { ContainerBoot, type BootedContainer } from './container-boot.ts';
import { CliVolumes } from './cli-volume.ts';
import { cliMount } from './cli-mount.ts';
import { checkSpec, containerOptions, gatewayMount } from './container-spec.ts';
import { connectDocker, daemonCall, statusOf, type DaemonConnection } from './daemon.ts';
import { mayHaveQuota, refusesQuota } from './disk-limit.ts';
import { DiskWatermark } from './disk-watermark.ts';
import { DockerSandbox } from './docker-sandbox.ts';
import { listenAt, makeGatewayDirectory, socketUnseen } from './gateway-directory.ts';
import { openGatewayTunnel } from './gateway-tunnel.ts';
import { lookAtHost, type HostFacts } from './host-facts.ts';
import { removeStaleLocks } from './images/host-lock.ts';
import { ImageSupply, ownImage } from './images/image-supply.ts';
import { reclaimImages } from './images/reclaim-images.ts';
import { PreparedDockerSandbox } from './prepared-sandbox.ts';
import { Reach, type Way } from './reach.ts';
import { reapContainers } from './reap-containers.ts';
import { listKept, removeKept } from './snapshots.ts';

export interface DockerProviderOptions {
  /** Image of tasks that name none. Default: `rollpool-sandbox:bookworm`, which scripts/build-sandbox-image builds. */
  readonly defaultImage?: string | null;
  /** Address of the daemon: unix, tcp, http, https or ssh. Default: what DOCKER_HOST says, else the default socket. */
  readonly dockerHost?: string | null;
  /** Further arguments of the ssh that leads to a daemon at `ssh://...`. Default: none. */
  readonly sshArguments?: readonly string[];
  /** How sandboxes reach the gateway. Default: `auto`, a mounted socket where that works, else a tunnel. */
  readonly reach?: 'auto' | 'socket' | 'tunnel';
  /** Processes and threads a sandbox may have at once. Default: 512. */
  readonly pidsLimit?: number;
  /**
   * Where directories of sandboxes that wait for their episode are made, on the file system of the gateway's sockets and
   * removed by somebody when this process is dead. Default: none, and no sandbox is made ahead.
   */
  readonly runtimeDirectory?: string | null;
  /** Sandboxes being made at once, whoever they are for. Default: 2 x cores. */
  readonly bootsAtOnce?: number;
  /** Seconds that the pull or the build of an image may take. Default: 1800. */
  readonly imageSeconds?: number;
  /** Megabytes (2^20) that a sandbox may write where its task says nothing. Default: 10240. */
  readonly diskMb?: number;
  /** Megabytes (2^20) that must be free on the daemon's disk before anything starts. Default: 0, which is not to look. */
  readonly diskFreeMb?: number;
  /** Directory of Docker's own configuration, where logins for registries are. Default: `~/.docker`. */
  readonly dockerConfig?: string;
  /** Where locks between the processes of this machine are. Default: the system's directory for temporary files. */
  readonly lockDirectory?: string;
  /** How sandboxes with an allow list reach its hosts. */
  readonly egress?: EgressSettings;
  readonly log?: Logger;
}

const mebibyte = 2 ** 20;

/** Sandboxes as containers of a Docker daemon on this machine. */
export class DockerProvider implements SandboxProvider {
  readonly name = 'docker';
  readonly #daemon: DaemonConnection;
  readonly #docker: Docker;
  readonly #image: string;
  readonly #where: string;
  readonly #directory: string | null;
  readonly #pidsLimit: number;
  readonly #diskMb: number;
  readonly #log: Logger;
  readonly #boots: ContainerBoot;
  readonly #images: ImageSupply;
  readonly #space: DiskWatermark;
  readonly #lockDirectory: string;
  readonly #egress: EgressSettings;
  readonly #reach: Reach;
  readonly #cliVolumes: CliVolumes;
  #host: Promise<HostFacts> | undefined;
  /** The daemon was asked to limit a layer and could not. */
  #noQuota = false;

  constructor(options: DockerProviderOptions = {}) {
    this.#where = options.dockerHost ?? 'DOCKER_HOST or its default socket';
    this.#directory = options.runtimeDirectory ?? null;
    this.#image = options.defaultImage ?? ownImage;
    this.#pidsLimit = options.pidsLimit ?? 512;
    this.#lockDirectory = options.lockDirectory ?? tmpdir();
    this.#diskMb = options.diskMb ?? 10_240;
    this.#egress = options.egress ?? {};
    const log = options.log ?? silentLogger;
    this.#log = log;
    this.#daemon = connectDocker(options.dockerHost ?? null, {
      directory: this.#directory,
      ...(options.sshArguments === undefined ? {} : { arguments: options.sshArguments }),
      log,
    });
    this.#docker = this.#daemon.docker;
    this.#boots = new ContainerBoot(this.#docker, log, options.bootsAtOnce);
    this.#reach = new Reach({ remote: this.#daemon.remote, setting: options.reach ?? 'auto', log });
    this.#cliVolumes = new CliVolumes(this.#docker, log);
    this.#space = new DiskWatermark({
      freeMb: options.diskFreeMb ?? 0,
      host: () => this.#hostFacts(),
      reclaim: (enough) => reclaimImages(this.#docker, enough, log),
      log,
    });
    this.#images = new ImageSupply({
      docker: this.#docker,
      log,
      defaultImage: this.#image,
      seconds: options.imageSeconds ?? 1_800,
      daemonId: async () => (await this.#hostFacts()).daemonId,
      ensureSpace: () => this.#space.ensure(),
      lockDirectory: this.#lockDirectory,
      dockerConfig: options.dockerConfig,
    });
  }

  async probe(signal?: AbortSignal): Promise<void> {
    this.#host = undefined;
    this.#reach.way(await this.#hostFacts(signal));
  }

  /** What the default image is and whether it is here. Rejects (infra) when the daemon is away. */
  async inspectImage(): Promise<{ readonly image: string; readonly present: boolean }> {
    try {
      await daemonCall('inspect image', 10_000, async () => this.#docker.getImage(this.#image).inspect());
      return { image: this.#image, present: true };
    } catch (error) {
      if (statusOf(error instanceof Error ? (error.cause ?? error) : error) !== 404) throw error;
      return { image: this.#image, present: false };
    }
  }

  async provide(spec: SandboxSpec, signal: AbortSignal): Promise<void> {
    await this.#images.provide(spec, signal);
  }

  async create(request: SandboxRequest): Promise<Sandbox> {
    try {
      return await this.#create(request);
    } catch (error) {
      if (!(await this.#reach.turns(error, request.gateway_dir))) throw error;
      return this.#create(request);
    }
  }

  async prepare(request: PrepareRequest): Promise<PreparedSandbox> {
    if (this.#directory === null) {
      throw new Error('sandboxes are made ahead only where the provider has a directory for them');
    }
    await this.#settleReach(request);
    const directory = await makeGatewayDirectory(this.#directory);
    try {
      const made = await this.#make({ ...request, gateway_dir: directory.path }, [directory]);
      return new PreparedDockerSandbox({ ...made, directory: directory.path });
    } catch (error) {
      await directory[Symbol.asyncDispose]();
      throw error;
    }
  }

  async listSnapshots(pool: string): Promise<readonly KeptSnapshot[]> {
    return listKept(this.#docker, pool);
  }

  async removeSnapshot(name: string): Promise<void> {
    await removeKept(this.#docker, name);
  }

  async reap(filter: ReapFilter): Promise<ReapReport> {
    await removeStaleLocks(this.#lockDirectory);
    return reapContainers(this.#docker, filter);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#images[Symbol.asyncDispose]();
    await this.#boots[Symbol.asyncDispose]();
    await this.#daemon[Symbol.asyncDispose]();
  }

  /** What the daemon is, or one clear error why sandboxes cannot run on it. Asked once. */
  async #hostFacts(signal?: AbortSignal): Promise<HostFacts> {
    this.#host ??= this.#daemon
      .ready()
      .then(() => lookAtHost(this.#docker, this.#where, signal))
      .catch((error: unknown) => {
        this.#host = undefined;
        throw error;
      });
    return this.#host;
  }

  async #create(request: SandboxRequest): Promise<Sandbox> {
    const { sandbox, seesSocket } = await this.#make(request);
    if (request.gateway_dir === null) return sandbox;
    if (seesSocket) {
      this.#reach.works();
      return sandbox;
    }
    await sandbox[Symbol.asyncDispose]();
    throw socketUnseen(request.gateway_dir);
  }

  /** Finds out how the gateway is reached before the first sandbox that waits: nobody could tell from that one. */
  async #settleReach(request: PrepareRequest): Promise<void> {
    if (!this.#reach.isOpen || this.#directory === null) return;
    await using directory = await makeGatewayDirectory(this.#directory);
    await using _socket = await listenAt(join(directory.path, 'gw.sock'));
    await using _sandbox = await this.create({ ...request, gateway_dir: directory.path });
  }

  async #make(
    request: SandboxRequest,
    attached: readonly AsyncDisposable[] = [],
  ): Promise<BootedContainer & { readonly sandbox: DockerSandbox }> {
    request.signal.throwIfAborted();
    checkSpec(request);
    await this.#space.ensure();
    const way = this.#reach.way(await this.#hostFacts(request.signal));
    const egress = await openSandboxEgress(request.spec.network, {
      ...this.#egress,
      directory: request.gateway_dir,
      runtimeDirectory: this.#directory,
      log: this.#log,
    });
    let sandbox: DockerSandbox | undefined;
    try {
      const placed = egress === null ? request : { ...request, gateway_dir: egress.directory };
      const { quota, ...booted } = await this.#boot(placed, way);
      sandbox = new DockerSandbox({
        docker: this.#docker,
        ...booted,
        workdir: request.spec.workdir.replace(/(?<=.)\/+$/, ''),
        cliPath: request.cli_binary === null ? null : cliMount,
        pidsLimit: this.#pidsLimit,
        diskBytes: quota ? null : this.#diskBytes(request),
        log: this.#log,
        egress,
        attached,
      });
      if (way === 'socket' || placed.gateway_dir === null) {
        await egress?.forward(sandbox, gatewayMount, request.signal);
        return { ...booted, sandbox };
      }
      sandbox.useTunnel(
        await openGatewayTunnel(sandbox, {
          control: booted.control,
          directory: placed.gateway_dir,
          routes: egress === null ? [] : [egress.route],
          signal: request.signal,
          log: this.#log,
        }),
      );
      return { ...booted, seesSocket: true, sandbox };
    } catch (error) {
      await (sandbox ?? egress)?.[Symbol.asyncDispose]().catch(() => undefined);
      throw error;
    }
  }

  /** The volume that has the request's CLI, made from `image` where it is not there yet; null where none is asked for. */
  async #cliVolume(image: string, request: SandboxRequest): Promise<string | null> {
    if (request.cli_binary === null) return null;
    if (!request.snapshot) await this.#images.provide(request.spec, request.signal);
    return this.#cliVolumes.provide(request.cli_binary, image, request);
  }

  #diskBytes({ spec }: SandboxRequest): number {
    return (spec.disk_mb ?? this.#diskMb) * mebibyte;
  }

  async #boot(request: SandboxRequest, way: Way): Promise<BootedContainer & { readonly quota: boolean }> {
    const quota = !this.#noQuota && mayHaveQuota(await this.#hostFacts(request.signal));
    try {
      return { ...(await this.#bootImage(request, way, quota)), quota };
    } catch (error) {
      if (!quota || !refusesQuota(error)) throw error;
      this.#noQuota = true;
      return { ...(await this.#bootImage(request, way, false)), quota: false };
    }
  }

  /** Brings the image anew where it was removed since it was found, once. */
  async #bootImage(request: SandboxRequest, way: Way, quota: boolean): Promise<BootedContainer> {
    const { spec, signal } = request;
    const image = request.snapshot ?? this.#images.nameOf(spec);
    const cliVolume = way === 'tunnel' ? await this.#cliVolume(image, request) : null;
    const mounted = way === 'tunnel' ? { ...request, gateway_dir: null, cli_binary: null } : request;
    const options = containerOptions(mounted, {
      cliVolume,
      image,
      pidsLimit: this.#pidsLimit,
      host: await this.#hostFacts(signal),
      expiresAt: Date.now() + request.ttl_seconds * 1000,
      diskBytes: this.#diskBytes(request),
      quota,
    });
    const context = { image, isDefaultImage: image === this.#image, request };
    try {
      return await this.#boots.boot(options, context);
    } catch (error) {
      const missing = error instanceof EpisodeError && error.failure.code === 'image_missing';
      if (!missing || request.snapshot) throw error;
      this.#images.forget(image);
      await this.#images.provide(spec, signal);
      return this.#boots.boot(options, context);
    }
  }
}
