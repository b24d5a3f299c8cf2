import { chmod, lchown, lstat, mkdir, rm } from 'node:fs/promises';
import { isAbsolute, join, normalize, relative } from 'node:path';
import { crashPoint } from '../../observe/index.ts';
import { killOnAbort, runBounded } from '../bounded-command.ts';
import { collectFiles } from '../collect-files.ts';
import { OutputTail } from '../output-tail.ts';
import { infraFailure, taskFailure } from '../sandbox-failure.ts';
import type {
  CollectBounds,
  CollectedFile,
  ExecOptions,
  ExecResult,
  Sandbox,
  SandboxProcess,
  SandboxState,
  SandboxUser,
  SpawnOptions,
  UploadFiles,
} from '../sandbox.ts';
import { killProcesses } from './kill-processes.ts';
import { startCommand, type CommandContext } from './local-command.ts';
import { makeDirectories, placeFile, readPlainFile, removeTree } from './sandbox-files.ts';
import { writeState, type LocalState } from './state-file.ts';

const killTreeMs = 15_000;
const defaultOutputBytes = 64 * 1024;

export interface LocalSandboxParts {
  readonly id: string;
  /** Real path of the sandbox's directory. */
  readonly directory: string;
  readonly state: LocalState;
  readonly cliPath: string | null;
  readonly gatewaySocket: string;
  readonly path: string;
}

export const workspaceName = 'workspace';
export const homeName = 'home';
export const tmpName = 'tmp';

/**
 * A directory and the processes that work in it. It does not isolate: the agent reaches the network and every file its
 * user can read. Root, agent and grader are one and the same user.
 */
export class LocalSandbox implements Sandbox {
  readonly provider = 'local';
  readonly isolation = 'process';
  readonly id: string;
  readonly workdir: string;
  readonly agent_home: string;
  readonly cli_path: string | null;
  readonly gateway_socket: string;
  readonly proxy_url = null;
  readonly #directory: string;
  readonly #context: CommandContext;
  #state: LocalState;
  #disposal: Promise<void> | undefined;

  constructor(parts: LocalSandboxParts) {
    this.id = parts.id;
    this.#directory = parts.directory;
    this.#state = parts.state;
    this.workdir = join(parts.directory, workspaceName);
    this.agent_home = join(parts.directory, homeName);
    this.cli_path = parts.cliPath;
    this.gateway_socket = parts.gatewaySocket;
    this.#context = {
      uid: parts.state.uid,
      env: {
        PATH: parts.path,
        HOME: this.agent_home,
        TMPDIR: join(parts.directory, tmpName),
        // The agent's CLI does not heed TMPDIR, and would leave a directory for every user id.
        CLAUDE_CODE_TMPDIR: join(parts.directory, tmpName),
        USER: 'agent',
        LOGNAME: 'agent',
        SHELL: '/bin/bash',
        LANG: 'C.UTF-8',
        ROLLPOOL_SANDBOX: parts.state.mark,
      },
    };
  }

  async exec(command: string | readonly string[], options: ExecOptions): Promise<ExecResult> {
    options.signal?.throwIfAborted();
    this.#assertThere();
    const limit = options.max_output_bytes ?? defaultOutputBytes;
    const stdout = new OutputTail(limit);
    const stderr = new OutputTail(limit);
    const running = await startCommand(
      command,
      options.cwd ?? this.workdir,
      options.env ?? {},
      this.#context,
    );
    running.child.stdout.on('data', (chunk: Buffer) => stdout.push(chunk));
    running.child.stderr.on('data', (chunk: Buffer) => stderr.push(chunk));
    running.child.stdin.end(options.stdin ?? '');

    const { code, timedOut } = await runBounded(
      { exited: running.exited, kill: () => running.kill(killTreeMs) },
      options,
    );
    if (!timedOut) this.#assertThere();
    return {
      exit_code: code,
      timed_out: timedOut,
      stdout: stdout.text(),
      stderr: stderr.text(),
      stdout_bytes: stdout.written,
      stderr_bytes: stderr.written,
    };
  }

  async spawn(command: string | readonly string[], options: SpawnOptions): Promise<SandboxProcess> {
    options.signal?.throwIfAborted();
    this.#assertThere();
    const running = await startCommand(
      command,
      options.cwd ?? this.workdir,
      options.env ?? {},
      this.#context,
    );
    const { child } = running;
    let ended = false;
    const exited = running.exited.then((code) => {
      ended = true;
      return this.#disposal === undefined ? code : null;
    });
    const kill = async (): Promise<void> => {
      if (!ended) await running.kill(killTreeMs);
      // What nobody reads any more must not hold the end back.
      child.stdout.resume();
      child.stderr.resume();
      await exited;
    };
    killOnAbort({ exited, kill }, options.signal);
    return {
      stdin: child.stdin,
      stdout: child.stdout,
      stderr: child.stderr,
      exited,
      kill,
      [Symbol.asyncDispose]: kill,
    };
  }

  async upload(
    files: UploadFiles,
    options: { base?: string; owner?: SandboxUser; mode?: number } = {},
  ): Promise<void> {
    this.#assertThere();
    const base = this.#inside(options.base ?? this.workdir);
    if (base === null) {
      throw taskFailure('bad_path', `files: ${options.base} is outside of a local sandbox's own directory`);
    }
    const { uid } = this.#state;
    await makeDirectories(this.#directory, base, uid);
    for (const [path, content] of Object.entries(files)) {
      if (path.split('/').includes('..') || path.includes('\0')) {
        throw taskFailure('bad_path', `files: ${JSON.stringify(path)} cannot be a path in a sandbox`);
      }
      await placeFile(this.#directory, join(base, path), content, { uid, mode: options.mode ?? 0o644 });
    }
  }

  async giveWorkdir(_user: SandboxUser): Promise<void> {
    this.#assertThere();
    const found = await lstat(this.workdir).catch(() => null);
    if (found?.isDirectory() !== true) {
      await rm(this.workdir, { force: true });
      await mkdir(this.workdir);
    }
    if (this.#state.uid !== null) await lchown(this.workdir, this.#state.uid, this.#state.uid);
    await chmod(this.workdir, 0o755);
  }

  async read(path: string, max_bytes: number): Promise<Uint8Array | null> {
    this.#assertThere();
    const inside = this.#inside(isAbsolute(path) ? path : join(this.workdir, path));
    return inside === null ? null : readPlainFile(join(this.#directory, inside), max_bytes);
  }

  async collect(paths: readonly string[], bounds: CollectBounds): Promise<readonly CollectedFile[]> {
    return collectFiles(this, paths, bounds);
  }

  async killAgent(timeout_ms: number): Promise<void> {
    this.#assertThere();
    await killProcesses(
      () => ({
        mark: `ROLLPOOL_SANDBOX=${this.#state.mark}`,
        uid: this.#state.uid,
        directory: this.#directory,
        roots: [],
      }),
      timeout_ms,
    );
  }

  async state(): Promise<SandboxState> {
    if (this.#disposal !== undefined) return 'gone';
    const found = await lstat(this.#directory).catch(() => null);
    return found?.isDirectory() === true ? 'running' : 'gone';
  }

  async extend(seconds: number): Promise<void> {
    this.#assertThere();
    const next = { ...this.#state, expires_at: this.#state.expires_at + seconds * 1000 };
    await writeState(this.#directory, next);
    this.#state = next;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#disposal ??= (async () => {
      crashPoint('sandbox.delete:before');
      await removeLocalSandbox(this.#directory, this.#state);
      crashPoint('sandbox.delete:after');
    })();
    await this.#disposal;
  }

  #assertThere(): void {
    if (this.#disposal !== undefined)
      throw infraFailure('sandbox_gone', 'the sandbox is gone: it was disposed');
  }

  /** A path relative to the sandbox's directory, or null when it leads out of it. */
  #inside(path: string): string | null {
    const below = relative(this.#directory, normalize(path));
    return below === '' || below === '..' || below.startsWith('../') || isAbsolute(below) ? null : below;
  }
}

/** Ends what runs in a local sandbox, then removes its directory. Its state file goes with it, and so last. */
export async function removeLocalSandbox(directory: string, state: LocalState): Promise<void> {
  await killProcesses(
    () => ({ mark: `ROLLPOOL_SANDBOX=${state.mark}`, uid: state.uid, directory, roots: [] }),
    killTreeMs,
  );
  for (const name of [workspaceName, homeName, tmpName]) await removeTree(join(directory, name));
  await removeTree(directory);
}
