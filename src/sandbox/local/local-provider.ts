import { randomBytes } from 'node:crypto';
import { access, lchown, lstat, mkdir, readdir, realpath } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { EpisodeError } from '../../contracts/index.ts';
import { crashPoint, silentLogger, type Logger } from '../../observe/index.ts';
import { reapVerdict, type ReapFilter, type ReapReport } from '../../contracts/index.ts';
import { infraFailure, reasonOf } from '../sandbox-failure.ts';
import type { Sandbox, SandboxProvider, SandboxRequest } from '../sandbox.ts';
import { accountOf, accountWorks } from './account.ts';
import { homeName, LocalSandbox, removeLocalSandbox, tmpName, workspaceName } from './local-sandbox.ts';
import { startCommand } from './local-command.ts';
import { removeTree } from './sandbox-files.ts';
import { readState, writeState, type LocalState } from './state-file.ts';

export interface LocalProviderOptions {
  /** Where sandboxes are made. Default: the system's directory for temporary files. */
  readonly directory?: string;
  /** PATH of commands. Default: the usual system directories and that of this Node. */
  readonly path?: string;
  readonly log?: Logger;
}

const namePrefix = 'rollpool-sandbox-';

function defaultPath(): string {
  const usual = ['/usr/local/bin', '/usr/bin', '/bin', '/usr/sbin', '/sbin'];
  if (process.platform === 'darwin') usual.unshift('/opt/homebrew/bin');
  return [...usual, dirname(process.execPath)].join(':');
}

/**
 * Sandboxes as directories of this machine. They do not isolate. When this process is root each has a user id of its
 * own, so that its processes are surely found and can change nobody else's files; otherwise they run as its user.
 */
export class LocalProvider implements SandboxProvider {
  readonly name = 'local';
  readonly #directory: string;
  readonly #path: string;
  readonly #log: Logger;
  #warned = false;

  constructor(options: LocalProviderOptions = {}) {
    this.#directory = options.directory ?? tmpdir();
    this.#path = options.path ?? defaultPath();
    this.#log = options.log ?? silentLogger;
  }

  async probe(signal?: AbortSignal): Promise<void> {
    signal?.throwIfAborted();
    try {
      await access(this.#directory);
      const command = await startCommand(
        'exit 7',
        this.#directory,
        {},
        { uid: null, env: { PATH: this.#path } },
      );
      command.child.stdin.end();
      if ((await command.exited) !== 7) throw new Error('bash does not run commands');
    } catch (cause) {
      throw infraFailure('local_unfit', `local sandboxes cannot run here: ${reasonOf(cause)}`, {
        phase: 'boot',
        cause,
      });
    }
  }

  async create(request: SandboxRequest): Promise<Sandbox> {
    request.signal.throwIfAborted();
    if (!this.#warned) {
      this.#warned = true;
      this.#log.warn(
        'local sandboxes do not isolate: the agent reaches the network and what its user may read',
      );
    }
    crashPoint('sandbox.create:before');
    const name = `${namePrefix}${process.pid}-${request.owner.nonce.replace(/[^a-zA-Z0-9_.-]/g, '_')}`;
    let directory: string | undefined;
    try {
      directory = join(await realpath(this.#directory), name);
      await mkdir(directory, { mode: 0o711 });
      const state = await this.#prepare(directory, request);
      crashPoint('sandbox.create:after');
      request.signal.throwIfAborted();
      return new LocalSandbox({
        id: name,
        directory,
        state,
        cliPath: request.cli_binary,
        gatewaySocket: join(request.gateway_dir ?? join(directory, tmpName), 'gw.sock'),
        path: this.#path,
      });
    } catch (error) {
      if (directory !== undefined) await removeTree(directory).catch(() => undefined);
      if (error instanceof EpisodeError || error === request.signal.reason) throw error;
      throw infraFailure('boot_failed', `a local sandbox cannot be made: ${reasonOf(error)}`, {
        phase: 'boot',
        cause: error,
      });
    }
  }

  async reap(filter: ReapFilter): Promise<ReapReport> {
    const removed: string[] = [];
    const kept: { id: string; why: string }[] = [];
    const root = await realpath(this.#directory);
    for (const name of await readdir(root)) {
      const pid = new RegExp(`^${namePrefix}(\\d+)-`).exec(name)?.[1];
      if (pid === undefined) continue;
      const directory = join(root, name);
      const found = await lstat(directory).catch(() => null);
      // A directory of another user's: whatever its name says, it is not ours.
      if (found?.isDirectory() !== true || found.uid !== process.getuid?.()) continue;
      const state = await readState(directory);
      if (state === null) {
        // Its maker died between making it and writing down whose it is; nothing can run in it yet.
        if (!isAlive(Number(pid))) await removeTree(directory).then(() => removed.push(name));
        continue;
      }
      const verdict = reapVerdict(state, filter, Date.now(), false);
      if (verdict === 'not_asked') continue;
      if (verdict.remove) {
        crashPoint('sandbox.delete:before');
        await removeLocalSandbox(directory, state);
        crashPoint('sandbox.delete:after');
        removed.push(name);
      } else {
        kept.push({ id: name, why: verdict.why });
      }
    }
    return { removed, kept };
  }

  async [Symbol.asyncDispose](): Promise<void> {}

  async #prepare(directory: string, request: SandboxRequest): Promise<LocalState> {
    const parts = [workspaceName, homeName, tmpName].map((part) => join(directory, part));
    for (const part of parts) await mkdir(part, { mode: part.endsWith(workspaceName) ? 0o755 : 0o700 });
    const uid = await this.#account(directory, request);
    if (uid !== null) for (const part of parts) await lchown(part, uid, uid);
    const state: LocalState = {
      owner: request.owner,
      expires_at: Date.now() + request.ttl_seconds * 1000,
      mark: randomBytes(16).toString('hex'),
      uid,
    };
    await writeState(directory, state);
    return state;
  }

  /** The sandbox's own user id, where this process may give one and that user can reach what it needs. */
  async #account(directory: string, request: SandboxRequest): Promise<number | null> {
    if (process.platform !== 'linux' || process.getuid?.() !== 0) return null;
    const uid = accountOf(request.owner.nonce);
    const programs = request.cli_binary === null ? [] : [request.cli_binary];
    if (await accountWorks(uid, { directory, programs, socketDir: request.gateway_dir ?? directory }))
      return uid;
    this.#log.warn(
      'this local sandbox runs as root: a user of its own could not reach the gateway, the CLI or its directory',
    );
    return null;
  }
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM';
  }
}
