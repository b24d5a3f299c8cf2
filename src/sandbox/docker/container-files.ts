import type Docker from 'dockerode';
import { taskFailure } from '../sandbox-failure.ts';
import type { UploadFiles } from '../sandbox.ts';
import { packFiles, unpackFile } from './archive.ts';
import { hasMemoryTmp } from './container-spec.ts';
import type { ControlChannel } from './control-channel.ts';
import { daemonCall } from './daemon.ts';

const answerMs = 30_000;
const archiveMs = 60_000;

/** A path as init.sh takes it: for `printf %b`, and without a space at its end that `read` would strip. */
function escaped(path: string): string {
  return path.replaceAll('\\', '\\x5c').replaceAll(' ', '\\x20');
}

function isPlain(path: string): boolean {
  return !/[\x00-\x1f\x7f]/.test(path) && !path.split('/').includes('..');
}

/**
 * Files in and out of a container through the daemon's archive API. Root unpacks and reads there, and it would follow
 * what the agent planted; so the way is looked at first (init.sh, `walk`), and no link is followed but the image's own.
 * The agent must not be running meanwhile, or it could plant one in between.
 */
export class ContainerFiles {
  readonly #container: Docker.Container;
  readonly #control: ControlChannel;
  readonly #workdir: string;

  constructor(container: Docker.Container, control: ControlChannel, workdir: string) {
    this.#container = container;
    this.#control = control;
    this.#workdir = workdir;
  }

  async upload(files: UploadFiles, options: { base: string; uid: number; mode: number }): Promise<void> {
    if (Object.keys(files).length === 0) return;
    for (const path of [options.base, ...Object.keys(files)]) {
      if (!isPlain(path)) {
        throw taskFailure('bad_path', `files: ${JSON.stringify(path)} cannot be a path in a sandbox`);
      }
    }
    this.#refuseMemoryTmp(options.base);
    const { existing, missing } = await this.#walk(options.base);
    const tar = await packFiles(files, { below: missing, uid: options.uid, mode: options.mode });
    await daemonCall('upload files', archiveMs, async () =>
      this.#container.putArchive(tar, { path: existing }),
    );
  }

  async read(path: string, maxBytes: number): Promise<Uint8Array | null> {
    const absolute = path.startsWith('/') ? path : `${this.#workdir}/${path}`;
    if (!isPlain(absolute)) return null;
    this.#refuseMemoryTmp(absolute);
    const slash = absolute.lastIndexOf('/');
    const { existing, missing } = await this.#walk(absolute.slice(0, slash) || '/');
    if (missing !== '') return null;
    const physical = `${existing === '/' ? '' : existing}${absolute.slice(slash)}`;
    if ((await this.#control.ask('file', escaped(physical), answerMs)) !== 'yes') return null;
    return daemonCall('read file', archiveMs, async () =>
      unpackFile(await this.#container.getArchive({ path: physical }), maxBytes),
    );
  }

  /** How far a path consists of directories, and what is missing after them. */
  async #walk(path: string): Promise<{ existing: string; missing: string }> {
    const answer = await this.#control.ask('walk', escaped(path), answerMs);
    const [existing = '/', missing = ''] = answer.split('\t');
    return { existing, missing };
  }

  #refuseMemoryTmp(path: string): void {
    if (hasMemoryTmp(this.#workdir) && `${path}/`.startsWith('/tmp/')) {
      throw taskFailure(
        'bad_path',
        `${path}: files below /tmp cannot be uploaded or read: it is kept in memory`,
      );
    }
  }
}
