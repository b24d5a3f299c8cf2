import { tmpdir } from 'node:os';
import type Docker from 'dockerode';
import { EpisodeError, type ReapFilter, type ReapReport, type SandboxSpec } from '../../contracts/index.ts';
import { silentLogger, type Logger } from '../../observe/index.ts';
import type {
  KeptSnapshot,
  PreparedSandbox,
  PrepareRequest,
  Sandbox,
  SandboxProvider,
  SandboxRequest,
} from '../sandbox.ts';
import { ContainerBoot, type BootedContainer } from './container-boot.ts';
import { checkSpec, cliMount, containerOptions } from './container-spec.ts';
import { connectDocker, daemonCall, statusOf } from './daemon.ts';
import { DiskWatermark } from './disk-watermark.ts';
import { DockerSandbox } from './docker-sandbox.ts';
import { makeGatewayDirectory, socketUnseen } from './gateway-directory.ts';
import { lookAtHost, type HostFacts } from './host-facts.ts';
import { removeStaleLocks } from './images/host-lock.ts';
import { ImageSupply, ownImage } from './images/image-supply.ts';
import { reclaimImages } from './images/reclaim-images.ts';
import { PreparedDockerSandbox } from './prepared-sandbox.ts';
import { reapContainers } from './reap-containers.ts';
import { listKept, removeKept } from './snapshots.ts';

export interface DockerProviderOptions {
  /** Image of tasks that name none. Default: `rollpool-sandbox:bookworm`, which scripts/build-sandbox-image builds. */
  readonly defaultImage?: string | null;
  /** `unix://PATH` of the daemon. Default: what DOCKER_HOST says, else the default socket. */
  readonly dockerHost?: string | null;
  /** Processes and threads a sandbox may have at once. Default: 512. */
  readonly pidsLimit?: number;
  /**
   * Where directories of sandboxes that wait for their episode are made, on the file system of the gateway's sockets and
   * removed by somebody when this process is dead. Default: none, and no sandbox is made ahead.
   */
  readonly runtimeDirectory?: string | null;
  /** Seconds that the pull or the build of an image may take. Default: 1800. */
  readonly imageSeconds?: number;
  /** Megabytes (2^20) that must be free on the daemon's disk before anything starts. Default: 0, which is not to look. */
  readonly diskFreeMb?: number;
  /** Directory of Docker's own configuration, where logins for registries are. Default: `~/.docker`. */
  readonly dockerConfig?: string;
  /** Where locks between the processes of this machine are. Default: the system's directory for temporary files. */
  readonly lockDirectory?: string;
  readonly log?: Logger;
}

/** Sandboxes as containers of a Docker daemon on this machine. */
export class DockerProvider implements SandboxProvider {
  readonly name = 'docker';
  readonly #docker: Docker;
  readonly #image: string;
  readonly #where: string;
  readonly #directory: string | null;
  readonly #pidsLimit: number;
  readonly #boots: ContainerBoot;
  readonly #images: ImageSupply;
  readonly #space: DiskWatermark;
  readonly #lockDirectory: string;
  #host: Promise<HostFacts> | undefined;

  constructor(options: DockerProviderOptions = {}) {
    this.#where = options.dockerHost ?? 'DOCKER_HOST or its default socket';
    this.#directory = options.runtimeDirectory ?? null;
    this.#docker = connectDocker(options.dockerHost ?? null);
    this.#image = options.defaultImage ?? ownImage;
    this.#pidsLimit = options.pidsLimit ?? 512;
    this.#lockDirectory = options.lockDirectory ?? tmpdir();
    const log = options.log ?? silentLogger;
    this.#boots = new ContainerBoot(this.#docker, log);
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
    await this.#hostFacts(signal);
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
    const { sandbox, seesSocket } = await this.#make(request);
    if (seesSocket || request.gateway_dir === null) return sandbox;
    await sandbox[Symbol.asyncDispose]();
    throw socketUnseen(request.gateway_dir);
  }

  async prepare(request: PrepareRequest): Promise<PreparedSandbox> {
    if (this.#directory === null) {
      throw new Error('sandboxes are made ahead only where the provider has a directory for them');
    }
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
  }

  /** What the daemon is, or one clear error why sandboxes cannot run on it. Asked once. */
  async #hostFacts(signal?: AbortSignal): Promise<HostFacts> {
    this.#host ??= lookAtHost(this.#docker, this.#where, signal).catch((error: unknown) => {
      this.#host = undefined;
      throw error;
    });
    return this.#host;
  }

  async #make(
    request: SandboxRequest,
    attached: readonly AsyncDisposable[] = [],
  ): Promise<BootedContainer & { readonly sandbox: DockerSandbox }> {
    request.signal.throwIfAborted();
    checkSpec(request);
    await this.#space.ensure();
    const booted = await this.#boot(request);
    const sandbox = new DockerSandbox({
      docker: this.#docker,
      ...booted,
      workdir: request.spec.workdir.replace(/(?<=.)\/+$/, ''),
      cliPath: request.cli_binary === null ? null : cliMount,
      pidsLimit: this.#pidsLimit,
      attached,
    });
    return { ...booted, sandbox };
  }

  /** Brings the image anew where it was removed since it was found, once. */
  async #boot(request: SandboxRequest): Promise<BootedContainer> {
    const { spec, signal } = request;
    const host = await this.#hostFacts(signal);
    const image = request.snapshot ?? this.#images.nameOf(spec);
    const options = containerOptions(request, {
      image,
      pidsLimit: this.#pidsLimit,
      host,
      expiresAt: Date.now() + request.ttl_seconds * 1000,
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
