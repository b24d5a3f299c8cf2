import type Docker from 'dockerode';
import type { ImageBuild } from '../../../contracts/index.ts';
import { infraFailure, reasonOf, taskFailure } from '../../sandbox-failure.ts';
import { statusOf } from '../daemon.ts';
import { baseImages, buildTag, dockerfileOf, packContext } from './build-context.ts';
import { DaemonStreamError, readEvents } from './daemon-events.ts';
import { daemonWords, imageFailure } from './image-failure.ts';
import { parseReference } from './image-reference.ts';
import { findLogin, type RegistryLogin } from './registry-login.ts';

/** On every image that was built here; its value is the image's own tag. Whatever is built on it inherits the label. */
export const buildLabel = 'io.rollpool.build';

const tailLines = 40;
const tailBytes = 4_000;
const removeMs = 30_000;
/** How long the containers of a cancelled build may take to end. */
const restsMs = 15_000;

export interface BuildOptions {
  /** The line of the Dockerfile that runs, such as `Step 2/5 : RUN make`. */
  readonly onStep: (step: string) => void;
  readonly dockerConfig?: string | undefined;
  readonly signal: AbortSignal;
}

async function loginsFor(
  build: ImageBuild,
  dockerConfig: string | undefined,
): Promise<Record<string, RegistryLogin>> {
  const logins: Record<string, RegistryLogin> = {};
  for (const registry of new Set(baseImages(build).map((name) => parseReference(name).registry))) {
    const login = await findLogin(registry, dockerConfig);
    if (login !== null) logins[registry] = login;
  }
  return logins;
}

/** The end of a build's output, the step it is at, and the images that its steps made. */
class BuildLog {
  #text = '';
  #foreign = false;
  /** Short ids, in the order they were made. */
  readonly made: string[] = [];
  step = '';

  add(text: string): void {
    this.#text += text;
    // Cut now and then only: a build may print a character at a time.
    if (this.#text.length > 2 * 65_536) this.#text = this.#text.slice(-65_536);
    const step = /^Step \d+\/\d+ : .*/.exec(text)?.[0];
    if (step !== undefined) {
      this.step = step;
      this.#foreign = /^\S+ \S+ : FROM /i.test(step);
    }
    if (text.includes('---> Using cache')) this.#foreign = true;
    const id = /^ ---> ([0-9a-f]{12,64})$/.exec(text.trimEnd())?.[1];
    if (id !== undefined && !this.#foreign) this.made.push(id);
  }

  /** Whether it still looks for the image it starts from. */
  get atBase(): boolean {
    return this.step === '' || /^\S+ \S+ : FROM /i.test(this.step);
  }

  tail(): string {
    return this.#text.trimEnd().split('\n').slice(-tailLines).join('\n').slice(-tailBytes);
  }
}

/**
 * What the steps before the failed one made has no name and would stay for ever. Only what this build itself made goes: the
 * image it starts from and steps from the cache are others'.
 */
async function removeRests(docker: Docker, made: readonly string[]): Promise<void> {
  const deadline = Date.now() + restsMs;
  for (const id of made.toReversed()) {
    for (;;) {
      const why = await docker
        .getImage(id)
        .remove({ noprune: true, abortSignal: AbortSignal.timeout(removeMs) })
        .then(() => null, reasonOf);
      if (why === null) break;
      // The container of a step that was cancelled ends in a moment; anything else that stands on it by now stays.
      if (!/container/.test(why) || Date.now() > deadline) return;
      await new Promise((resolve) => setTimeout(resolve, 100));
    }
  }
}

/**
 * Builds an image with Docker's classic builder and gives it the tag of its content. Rejects with class task when the
 * Dockerfile fails (the end of its output is in the message), with class infra, or with the signal's reason.
 */
export async function buildImage(docker: Docker, build: ImageBuild, options: BuildOptions): Promise<void> {
  const { signal } = options;
  const name = buildTag(build);
  const log = new BuildLog();
  try {
    const logins = await loginsFor(build, options.dockerConfig);
    const context = await packContext(build);
    signal.throwIfAborted();
    const encoded = Buffer.from(JSON.stringify(logins)).toString('base64');
    const stream = await docker.buildImage(context as unknown as NodeJS.ReadableStream, {
      t: name,
      dockerfile: dockerfileOf(build),
      labels: { [buildLabel]: name },
      rm: true,
      forcerm: true,
      // The daemon reads the alphabet of URLs only.
      registryconfig: { base64: encoded.replaceAll('+', '-').replaceAll('/', '_') } as never,
      abortSignal: signal,
    });
    await readEvents(stream, ({ stream: text }) => {
      if (text === undefined) return;
      log.add(text);
      options.onStep(log.step.slice(0, 200));
    });
  } catch (error) {
    await removeRests(docker, log.made);
    signal.throwIfAborted();
    throw buildFailure(error, name, log);
  }
}

/** Whose fault it is: the files' own, unless a registry, the disk or the daemon failed. */
function buildFailure(error: unknown, name: string, log: BuildLog): unknown {
  const tail = log.tail();
  const output = tail === '' ? '' : `; the end of its output:\n${tail}`;
  const inFiles = taskFailure('build_failed', `sandbox.build: ${daemonWords(error)}${output}`, {
    cause: error,
  });
  const inStream = error instanceof DaemonStreamError;
  if (inStream && error.exitCode !== null) {
    if (!/no space left on device/i.test(tail)) return inFiles;
    return infraFailure('disk_full', `sandbox.build: the disk of the Docker daemon is full${output}`, {
      phase: 'boot',
      cause: error,
    });
  }
  const found = imageFailure(error, { name, field: 'sandbox.build' });
  const { code } = found.failure;
  if (code === 'registry_unreachable' || code === 'disk_full' || code === 'docker_unreachable') return found;
  if (/cannot allocate memory|resource temporarily unavailable/i.test(daemonWords(error))) return found;
  if (inStream) return log.atBase && code !== 'image_failed' ? found : inFiles;
  return statusOf(error) === 400 || /specified dockerfile/i.test(daemonWords(error)) ? inFiles : found;
}
