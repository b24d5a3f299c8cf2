import { once } from 'node:events';
import { mkdir, rm } from 'node:fs/promises';
import { Agent, request as httpRequest, type IncomingMessage } from 'node:http';
import { join } from 'node:path';
import type { Duplex } from 'node:stream';
import { fileURLToPath } from 'node:url';
import type Docker from 'dockerode';
import type { TemplateSpec } from './templates.ts';

const envdDirectory = fileURLToPath(new URL('./envd', import.meta.url));
const startMs = 60_000;

export interface ContainerRequest {
  readonly docker: Docker;
  /** Id of the sandbox. */
  readonly id: string;
  /** Marks the container as this double's. */
  readonly label: string;
  readonly spec: TemplateSpec;
  readonly internet: boolean;
  /** Directory of this machine in which the sandbox's socket gets its own. */
  readonly directory: string;
  readonly accessToken: string;
  readonly env: Readonly<Record<string, string>>;
}

/** One sandbox: a container with an init process and envd, which ends when its input does: nobody is to leave it behind. */
export class SandboxContainer {
  readonly socketPath: string;
  /** Connections to envd, which it never closes by itself. */
  readonly agent = new Agent({ keepAlive: true });
  readonly #container: Docker.Container;
  readonly #input: Duplex;
  readonly #directory: string;
  #removal: Promise<void> | undefined;

  private constructor(container: Docker.Container, input: Duplex, directory: string) {
    this.#container = container;
    this.#input = input;
    this.#directory = directory;
    this.socketPath = join(directory, 'envd.sock');
  }

  static async start(request: ContainerRequest): Promise<SandboxContainer> {
    const { docker, id, spec } = request;
    const directory = join(request.directory, id);
    await mkdir(directory, { mode: 0o711 });
    const container = await docker.createContainer({
      Image: spec.image,
      Cmd: ['python3', '/opt/e2b/serve.py', '/run/e2b/envd.sock'],
      Env: ['PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin', 'PYTHONDONTWRITEBYTECODE=1'],
      Hostname: 'e2b',
      User: 'root',
      WorkingDir: '/',
      Labels: { [request.label]: id },
      OpenStdin: true,
      StdinOnce: true,
      HostConfig: {
        Init: true,
        AutoRemove: true,
        NetworkMode: request.internet ? 'bridge' : 'none',
        Binds: [
          `${directory}:/run/e2b`,
          `${envdDirectory}:/opt/e2b:ro`,
          ...Object.entries(spec.mounts ?? {}).map(([from, to]) => `${from}:${to}:ro`),
        ],
      },
    });
    const input = (await container.attach({ stream: true, stdin: true, hijack: true })) as Duplex;
    input.on('error', () => undefined);
    input.resume();
    const started = new SandboxContainer(container, input, directory);
    try {
      await container.start();
      await started.#ready();
      await started.init({ accessToken: request.accessToken, envVars: request.env });
    } catch (error) {
      await started.remove();
      throw error;
    }
    return started;
  }

  /** envd's /init, which only the control plane may call. */
  async init(body: {
    accessToken: string;
    envVars?: Readonly<Record<string, string>>;
    reboot?: boolean;
  }): Promise<void> {
    const status = await this.#post('/init', JSON.stringify(body), body.accessToken);
    if (status !== 204) throw new Error(`envd answered /init with ${status}`);
  }

  async pause(): Promise<void> {
    await this.#container.pause();
  }

  async resume(): Promise<void> {
    await this.#container.unpause();
  }

  /** Keeps the files as an image of that name. */
  async commit(name: string): Promise<void> {
    await this.#container.commit({ repo: name, pause: true });
  }

  /** Resolves when nothing is left of it. */
  async remove(): Promise<void> {
    this.#removal ??= (async () => {
      const gone = this.#container.wait({ condition: 'removed' }).catch(() => undefined);
      await this.#container.remove({ force: true }).catch(() => undefined);
      await gone;
      this.#input.destroy();
      this.agent.destroy();
      await rm(this.#directory, { recursive: true, force: true });
    })();
    await this.#removal;
  }

  async #ready(): Promise<void> {
    const deadline = Date.now() + startMs;
    for (;;) {
      const status = await this.#post('/health', null, '').catch(() => null);
      if (status === 204) return;
      if (Date.now() > deadline) throw new Error('envd did not come up');
      await new Promise((resolve) => setTimeout(resolve, 15));
    }
  }

  async #post(path: string, body: string | null, token: string): Promise<number> {
    const request = httpRequest({
      socketPath: this.socketPath,
      path,
      method: body === null ? 'GET' : 'POST',
      headers: { 'x-access-token': token },
      agent: this.agent,
      timeout: startMs,
    });
    request.on('timeout', () => request.destroy(new Error('envd did not answer')));
    request.end(body ?? undefined);
    const [response] = (await once(request, 'response')) as [IncomingMessage];
    response.resume();
    await once(response, 'end');
    return response.statusCode ?? 0;
  }
}
