import { spawn, type ChildProcess } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { lstat, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Logger } from '../../observe/index.ts';
import { infraFailure } from '../sandbox-failure.ts';

const readyMs = 30_000;
const lookEveryMs = 50;
const closeMs = 5_000;
const firstPauseMs = 1_000;
const longestPauseMs = 30_000;
const defaultRemoteSocket = '/var/run/docker.sock';

export interface SshForwardOptions {
  /** `ssh://[user@]host[:port][/path/of/docker.sock]`. */
  readonly url: URL;
  /** Where the local end lies; null: in a directory of its own among the temporary ones. */
  readonly directory: string | null;
  /** Further arguments of ssh, such as `-F` and a file. Default: none. */
  readonly arguments?: readonly string[];
  readonly log: Logger;
}

/**
 * A remote daemon's socket as a Unix socket of this machine, by the user's own ssh: its configuration, keys, agent and known
 * hosts. It asks for nothing (BatchMode). When the connection ends it is made anew; ssh ends with this process, as it runs
 * a `cat` there that reads from here.
 */
export class SshForward implements AsyncDisposable {
  readonly #options: SshForwardOptions;
  #path: Promise<string> | undefined;
  #own: string | undefined;
  #child: ChildProcess | undefined;
  #again: NodeJS.Timeout | undefined;
  #pauseMs = firstPauseMs;
  #said = '';
  #closed = false;

  constructor(options: SshForwardOptions) {
    this.#options = options;
  }

  /** Path of the local end; whether it leads anywhere yet is for `ready` to say. Never rejects. */
  async socketPath(): Promise<string> {
    const path = await this.#open();
    await this.ready().catch(() => undefined);
    return path;
  }

  /** Resolves when the local end is there. Rejects (infra `docker_unreachable`) with ssh's own words. */
  async ready(): Promise<void> {
    const path = await this.#open();
    const deadline = Date.now() + readyMs;
    for (;;) {
      const found = await lstat(path).catch(() => null);
      if (found?.isSocket() === true && this.#runs()) return;
      if (this.#closed || !this.#runs() || Date.now() > deadline) break;
      await new Promise((resolve) => setTimeout(resolve, lookEveryMs));
    }
    const { host } = this.#options.url;
    throw infraFailure(
      'docker_unreachable',
      `ssh does not lead to the Docker daemon at ${host}: ${this.#said.trim().split('\n').at(-1) || 'no answer'}`,
      { phase: 'boot' },
    );
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#closed = true;
    clearTimeout(this.#again);
    await this.#path;
    const child = this.#child;
    if (child !== undefined && this.#runs()) {
      const ended = once(child, 'close');
      child.kill('SIGTERM');
      const late = setTimeout(() => child.kill('SIGKILL'), closeMs);
      await ended;
      clearTimeout(late);
    }
    if (this.#own !== undefined) await rm(this.#own, { recursive: true, force: true });
  }

  #runs(): boolean {
    return this.#child !== undefined && this.#child.exitCode === null && this.#child.signalCode === null;
  }

  #open(): Promise<string> {
    this.#path ??= (async () => {
      const { directory } = this.#options;
      this.#own =
        directory === null ? await mkdtemp(join(tmpdir(), `rollpool-ssh-${process.pid}-`)) : undefined;
      const path = join(directory ?? this.#own ?? '', `ssh-${randomBytes(4).toString('hex')}.sock`);
      this.#start(path);
      return path;
    })();
    return this.#path;
  }

  #start(path: string): void {
    const { url, log } = this.#options;
    const settings = {
      BatchMode: 'yes',
      ConnectTimeout: '15',
      ServerAliveInterval: '15',
      ServerAliveCountMax: '3',
      ExitOnForwardFailure: 'yes',
      StreamLocalBindUnlink: 'yes',
      // A connection shared with others would outlive this one's end.
      ControlPath: 'none',
    };
    const remote = url.pathname.length > 1 ? decodeURIComponent(url.pathname) : defaultRemoteSocket;
    const child = spawn(
      'ssh',
      [
        ...(this.#options.arguments ?? []),
        '-T',
        ...Object.entries(settings).flatMap(([name, value]) => ['-o', `${name}=${value}`]),
        ...['-L', `${path}:${remote}`],
        ...(url.port === '' ? [] : ['-p', url.port]),
        ...(url.username === '' ? [] : ['-l', decodeURIComponent(url.username)]),
        ...['--', url.hostname, 'cat'],
      ],
      { stdio: ['pipe', 'ignore', 'pipe'] },
    );
    const startedAt = Date.now();
    this.#child = child;
    this.#said = '';
    child.stdin?.on('error', () => undefined);
    child.stderr?.setEncoding('utf8').on('data', (text: string) => {
      this.#said = (this.#said + text).slice(-2_000);
    });
    child.on('error', (error) => (this.#said = error.message));
    child.once('close', (code) => {
      if (this.#closed) return;
      if (Date.now() - startedAt > longestPauseMs) this.#pauseMs = firstPauseMs;
      log.warn(
        { host: url.host, code, ssh: this.#said.trim() },
        'ssh to the Docker daemon ended; it is tried again',
      );
      this.#again = setTimeout(() => this.#start(path), this.#pauseMs);
      this.#again.unref();
      this.#pauseMs = Math.min(longestPauseMs, 2 * this.#pauseMs);
    });
  }
}
