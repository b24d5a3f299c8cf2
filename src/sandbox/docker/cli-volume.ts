import { createHash, randomBytes } from 'node:crypto';
import { createReadStream } from 'node:fs';
import type { IncomingMessage } from 'node:http';
import { stat } from 'node:fs/promises';
import { posix } from 'node:path';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import type Docker from 'dockerode';
import { pack } from 'tar-stream';
import type { Logger } from '../../observe/index.ts';
import { labelsOf } from '../leftovers.ts';
import { infraFailure, reasonOf } from '../sandbox-failure.ts';
import type { SandboxRequest } from '../sandbox.ts';
import { cliDirectory as directory, cliMount, cliVolumeMount } from './cli-mount.ts';
import { daemonCall, removeContainer, statusOf } from './daemon.ts';

const callMs = 60_000;
const fillMs = 600_000;

/** The label of a volume with a CLI; its value is the SHA-256 of the binary. */
const cliLabel = 'io.rollpool.cli';

// What a fill that was killed left behind goes after an hour.
const finish = `
cd "$1" && mv -f -- "$2" "$3" || exit
find . -maxdepth 1 -name '.fill-*' -mmin +60 -delete 2>/dev/null
exit 0
`;

/**
 * The agent CLI on a daemon that cannot mount this machine's files: a named volume for each binary, filled once. The binary
 * gets its name in it only when all of it is there, by a rename, so that a fill that was killed is never used and two at
 * once do no harm.
 */
export class CliVolumes {
  readonly #docker: Docker;
  readonly #log: Logger;
  readonly #filled = new Map<string, Promise<string>>();

  constructor(docker: Docker, log: Logger) {
    this.#docker = docker;
    this.#log = log;
  }

  /** The volume's name; `image` is one the daemon has. Rejects with infra. */
  async provide(binary: string, image: string, request: SandboxRequest): Promise<string> {
    const known = this.#filled.get(binary);
    if (known !== undefined) {
      const name = await known.catch(() => null);
      request.signal.throwIfAborted();
      if (name !== null && (await this.#exists(name))) return name;
      // Another caller may have begun anew meanwhile.
      if (this.#filled.get(binary) === known) this.#filled.delete(binary);
      return this.provide(binary, image, request);
    }
    const filling = this.#provide(binary, image, request);
    this.#filled.set(binary, filling);
    filling.catch(() => {
      if (this.#filled.get(binary) === filling) this.#filled.delete(binary);
    });
    return filling;
  }

  async #provide(binary: string, image: string, request: SandboxRequest): Promise<string> {
    try {
      const { size } = await stat(binary);
      const { name, labels } = await cliVolumeOf(binary);
      await daemonCall('create volume', callMs, () =>
        this.#docker.createVolume({ Name: name, Labels: labels }),
      );
      await this.#fill({ name, binary, size, image }, request);
      return name;
    } catch (cause) {
      request.signal.throwIfAborted();
      throw infraFailure(
        'cli_volume_failed',
        `the CLI cannot be brought to the Docker daemon: ${reasonOf(cause)}`,
        {
          phase: 'boot',
          cause,
        },
      );
    }
  }

  async #fill(
    volume: { name: string; binary: string; size: number; image: string },
    { owner, ttl_seconds }: SandboxRequest,
  ): Promise<void> {
    const part = `.fill-${randomBytes(8).toString('hex')}`;
    const helper = await daemonCall('create container', callMs, () =>
      this.#docker.createContainer({
        name: `rollpool-fill-${part.slice('.fill-'.length)}`,
        Image: volume.image,
        User: '0:0',
        WorkingDir: '/',
        Entrypoint: ['bash', '-c', finish, 'rollpool-fill', directory, part, posix.basename(cliMount)],
        Cmd: [],
        // As those of a sandbox, so that whoever sweeps after a dead worker finds it.
        Labels: labelsOf({ owner, expires_at: Date.now() + ttl_seconds * 1000 }),
        HostConfig: {
          NetworkMode: 'none',
          CapDrop: ['ALL'],
          SecurityOpt: ['no-new-privileges'],
          Mounts: [cliVolumeMount(volume.name, false)],
        },
      }),
    );
    try {
      if ((await this.#sizeOf(helper)) === volume.size) return;
      const started = Date.now();
      await daemonCall('fill volume', fillMs, () => putFile(helper, part, volume));
      await daemonCall('start container', callMs, () => helper.start());
      const { StatusCode } = (await daemonCall('wait for container', callMs, () => helper.wait())) as {
        StatusCode: number;
      };
      if (StatusCode !== 0) throw new Error(`renaming it in the volume failed with ${StatusCode}`);
      this.#log.info(
        { volume: volume.name, bytes: volume.size, ms: Date.now() - started },
        'brought the CLI to the Docker daemon',
      );
    } finally {
      await removeContainer(this.#docker, helper.id, callMs).catch((cause: unknown) =>
        this.#log.warn({ err: cause, container: helper.id }, 'left a container behind'),
      );
    }
  }

  /** Bytes of the CLI in the volume of a container; null: it is not there. */
  async #sizeOf(helper: Docker.Container): Promise<number | null> {
    try {
      const answer = (await daemonCall('look at volume', callMs, () =>
        helper.infoArchive({ path: cliMount }),
      )) as IncomingMessage;
      answer.resume();
      const found = String(answer.headers['x-docker-container-path-stat']);
      return (JSON.parse(Buffer.from(found, 'base64').toString()) as { size: number }).size;
    } catch (error) {
      if (statusOf((error as Error).cause) === 404) return null;
      throw error;
    }
  }

  async #exists(name: string): Promise<boolean> {
    return daemonCall('inspect volume', callMs, () => this.#docker.getVolume(name).inspect()).then(
      () => true,
      (error: unknown) => {
        if (statusOf((error as Error).cause) === 404) return false;
        throw error;
      },
    );
  }
}

/** Name and labels of the volume that has this binary. */
export async function cliVolumeOf(binary: string): Promise<{ name: string; labels: Record<string, string> }> {
  const hash = createHash('sha256');
  await pipeline(createReadStream(binary), hash);
  const sum = hash.digest('hex');
  return { name: `rollpool-cli-${sum.slice(0, 16)}`, labels: { [cliLabel]: sum } };
}

async function putFile(
  helper: Docker.Container,
  name: string,
  { binary, size }: { binary: string; size: number },
): Promise<void> {
  const tar = pack();
  const entry = tar.entry({ name, size, mode: 0o755, uid: 0, gid: 0, type: 'file' });
  const written = pipeline(createReadStream(binary), entry).then(() => tar.finalize());
  written.catch((error: unknown) => tar.destroy(error as Error));
  await Promise.all([written, helper.putArchive(Readable.from(tar), { path: directory })]);
}
