import type Docker from 'dockerode';
import { crashPoint, silentLogger, type Logger } from '../../observe/index.ts';
import { infraFailure, reasonOf } from '../sandbox-failure.ts';
import type { ReapFilter, ReapReport } from '../../contracts/index.ts';
import type { Sandbox, SandboxProvider, SandboxRequest } from '../sandbox.ts';
import { bootFailure, startFailure, type BootContext } from './boot-failure.ts';
import { checkSpec, cliMount, containerOptions, type HostFacts } from './container-spec.ts';
import { ControlChannel } from './control-channel.ts';
import { connectDocker, daemonCall, removeContainer, statusOf } from './daemon.ts';
import { DockerSandbox } from './docker-sandbox.ts';
import { reapContainers } from './reap-containers.ts';

const probeMs = 10_000;
const bootCallMs = 120_000;
const removeMs = 60_000;

export interface DockerProviderOptions {
  /** Image of tasks that name none. Default: `rollpool-sandbox:bookworm`, which scripts/build-sandbox-image builds. */
  readonly defaultImage?: string | null;
  /** `unix://PATH` of the daemon. Default: what DOCKER_HOST says, else the default socket. */
  readonly dockerHost?: string | null;
  /** Processes and threads a sandbox may have at once. Default: 512. */
  readonly pidsLimit?: number;
  readonly log?: Logger;
}

const defaultImage = 'rollpool-sandbox:bookworm';

/** Sandboxes as containers of a Docker daemon on this machine. */
export class DockerProvider implements SandboxProvider {
  readonly name = 'docker';
  readonly #docker: Docker;
  readonly #image: string;
  readonly #dockerHost: string | null;
  readonly #pidsLimit: number;
  readonly #log: Logger;
  #host: Promise<HostFacts> | undefined;
  /** Creations that were given up: the daemon may still finish them, and then they have to go. */
  readonly #abandoned = new Set<Promise<void>>();

  constructor(options: DockerProviderOptions = {}) {
    this.#dockerHost = options.dockerHost ?? null;
    this.#docker = connectDocker(this.#dockerHost);
    this.#image = options.defaultImage ?? defaultImage;
    this.#pidsLimit = options.pidsLimit ?? 512;
    this.#log = options.log ?? silentLogger;
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

  async create(request: SandboxRequest): Promise<Sandbox> {
    request.signal.throwIfAborted();
    checkSpec(request);
    const host = await this.#hostFacts(request.signal);
    const image = request.spec.image ?? this.#image;
    const options = containerOptions(request, {
      image,
      pidsLimit: this.#pidsLimit,
      host,
      expiresAt: Date.now() + request.ttl_seconds * 1000,
    });
    const context: BootContext = { image, isDefaultImage: image === this.#image, request };
    crashPoint('sandbox.create:before');
    const container = await this.#createContainer(options, context);
    let control: ControlChannel | undefined;
    try {
      control = await this.#start(container, context);
      crashPoint('sandbox.create:after');
      return new DockerSandbox({
        docker: this.#docker,
        container,
        control,
        workdir: request.spec.workdir.replace(/(?<=.)\/+$/, ''),
        cliPath: request.cli_binary === null ? null : cliMount,
        pidsLimit: this.#pidsLimit,
      });
    } catch (error) {
      control?.close();
      await removeContainer(this.#docker, container.id, removeMs).catch((cause: unknown) =>
        this.#log.warn({ err: cause, container: container.id }, 'left a container behind'),
      );
      throw error;
    }
  }

  async reap(filter: ReapFilter): Promise<ReapReport> {
    return reapContainers(this.#docker, filter);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all(this.#abandoned);
  }

  /** What the daemon is, or one clear error why sandboxes cannot run on it. Asked once. */
  async #hostFacts(signal?: AbortSignal): Promise<HostFacts> {
    this.#host ??= this.#look(signal).catch((error: unknown) => {
      this.#host = undefined;
      throw error;
    });
    return this.#host;
  }

  async #look(signal?: AbortSignal): Promise<HostFacts> {
    const where = this.#dockerHost ?? 'DOCKER_HOST or its default socket';
    let info: { OSType?: string; OperatingSystem?: string; NCPU?: number };
    try {
      info = (await daemonCall(
        'find the daemon',
        probeMs,
        async () => this.#docker.info() as Promise<unknown>,
        signal,
      )) as typeof info;
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
        {
          phase: 'boot',
        },
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
    return { cpus: info.NCPU ?? 1 };
  }

  async #createContainer(
    options: Docker.ContainerCreateOptions,
    context: BootContext,
  ): Promise<Docker.Container> {
    const creation = this.#docker.createContainer(options);
    try {
      return await daemonCall('create container', bootCallMs, () => creation, context.request.signal);
    } catch (error) {
      const abandoned = creation
        .then(
          (container) => removeContainer(this.#docker, container.id, removeMs),
          () => undefined,
        )
        .catch(() => undefined)
        .finally(() => this.#abandoned.delete(abandoned));
      this.#abandoned.add(abandoned);
      throw bootFailure(error, context);
    }
  }

  /** Starts the container and waits until its main process has prepared it. */
  async #start(container: Docker.Container, context: BootContext): Promise<ControlChannel> {
    const { request } = context;
    let control: ControlChannel | undefined;
    try {
      const stream = await daemonCall(
        'attach to container',
        bootCallMs,
        () => container.attach({ stream: true, stdin: true, stdout: true, stderr: true, hijack: true }),
        request.signal,
      );
      stream.on('error', () => undefined);
      control = new ControlChannel(stream as ConstructorParameters<typeof ControlChannel>[0]);
      await daemonCall('start container', bootCallMs, () => container.start(), request.signal);
      const socket = await control.ready(bootCallMs, request.signal);
      if (socket !== 'socket') {
        throw infraFailure(
          'socket_mount_unsupported',
          `the gateway's socket in ${request.gateway_dir} is not seen inside the container: the Docker daemon ` +
            '(DOCKER_HOST) must run on this machine and share its files',
          { phase: 'boot' },
        );
      }
      return control;
    } catch (error) {
      control?.close();
      throw await startFailure(error, container, context);
    }
  }
}
