import { PassThrough, Writable } from 'node:stream';
import type Docker from 'dockerode';
import type { Files } from '../../contracts/index.ts';
import { crashPoint, type Logger } from '../../observe/index.ts';
import { OutputTail } from '../output-tail.ts';
import { taskFailure } from '../sandbox-failure.ts';
import type {
  ExecOptions,
  ExecResult,
  Sandbox,
  SandboxProcess,
  SandboxState,
  SandboxUser,
  SpawnOptions,
} from '../sandbox.ts';
import { packFiles, unpackFile } from './archive.ts';
import { startExec, type RunningExec } from './container-exec.ts';
import { gatewaySocket, hasMemoryTmp } from './container-spec.ts';
import type { ControlChannel } from './control-channel.ts';
import { daemonCall, removeContainer } from './daemon.ts';
import { killUser } from './kill-user.ts';
import { homes, uids } from './users.ts';

const answerMs = 30_000;
const archiveMs = 60_000;
const ownMs = 120_000;
const removeMs = 60_000;
/** How long killing a command's tree may take before the whole user's processes are killed. */
const killMs = 15_000;
const defaultOutputBytes = 64 * 1024;

/** A path as init.sh takes it: for `printf %b`, and without a space at its end that `read` would strip. */
function escaped(path: string): string {
  return path.replaceAll('\\', '\\x5c').replaceAll(' ', '\\x20');
}

function hasControlCharacter(path: string): boolean {
  return /[\x00-\x1f\x7f]/.test(path);
}

/** Takes what a stream can hold and waits for its reader then. A stream that was closed takes everything. */
function pacedSink(stream: PassThrough): (chunk: Buffer) => void | Promise<void> {
  return (chunk) => {
    if (stream.destroyed || stream.write(chunk)) return;
    return new Promise<void>((resolve) => {
      const done = (): void => {
        stream.off('drain', done);
        stream.off('close', done);
        resolve();
      };
      stream.on('drain', done);
      stream.on('close', done);
    });
  };
}

export interface DockerSandboxParts {
  readonly docker: Docker;
  readonly container: Docker.Container;
  readonly control: ControlChannel;
  readonly workdir: string;
  readonly cliPath: string | null;
  readonly pidsLimit: number;
  readonly log: Logger;
}

/** A container. The agent is uid 1000 in it, the grader uid 1001, and both can become nobody else. */
export class DockerSandbox implements Sandbox {
  readonly provider = 'docker';
  readonly isolation = 'container';
  readonly id: string;
  readonly workdir: string;
  readonly agent_home = homes.agent;
  readonly cli_path: string | null;
  readonly gateway_socket = gatewaySocket;
  readonly #parts: DockerSandboxParts;
  #disposal: Promise<void> | undefined;

  constructor(parts: DockerSandboxParts) {
    this.#parts = parts;
    this.id = parts.container.id;
    this.workdir = parts.workdir;
    this.cli_path = parts.cliPath;
  }

  async exec(command: string | readonly string[], options: ExecOptions): Promise<ExecResult> {
    options.signal?.throwIfAborted();
    const limit = options.max_output_bytes ?? defaultOutputBytes;
    const stdout = new OutputTail(limit);
    const stderr = new OutputTail(limit);
    const user = options.user ?? 'root';
    const running = await this.#start(command, options, {
      stdout: (chunk) => stdout.push(chunk),
      stderr: (chunk) => stderr.push(chunk),
    });
    running.stdin.end(options.stdin ?? '');

    let interruption: 'deadline' | 'abort' | undefined;
    let killing: Promise<void> = Promise.resolve();
    const interrupt = (by: 'deadline' | 'abort'): void => {
      if (interruption !== undefined) return;
      interruption = by;
      killing = this.#killTree(running, user);
    };
    const timer = setTimeout(() => interrupt('deadline'), options.timeout_ms);
    const onAbort = (): void => interrupt('abort');
    options.signal?.addEventListener('abort', onAbort, { once: true });
    if (options.signal?.aborted) onAbort();
    try {
      const code = await running.exited;
      await killing;
      if (interruption === 'abort') throw options.signal?.reason;
      if (interruption === undefined && (code === null || code > 128)) await this.#assertAlive();
      return {
        exit_code: interruption === 'deadline' ? null : code,
        timed_out: interruption === 'deadline',
        stdout: stdout.text(),
        stderr: stderr.text(),
        stdout_bytes: stdout.written,
        stderr_bytes: stderr.written,
      };
    } finally {
      clearTimeout(timer);
      options.signal?.removeEventListener('abort', onAbort);
    }
  }

  async spawn(command: string | readonly string[], options: SpawnOptions): Promise<SandboxProcess> {
    options.signal?.throwIfAborted();
    const user = options.user ?? 'root';
    const stdout = new PassThrough();
    const stderr = new PassThrough();
    const running = await this.#start(command, options, {
      stdout: pacedSink(stdout),
      stderr: pacedSink(stderr),
    });
    let exited = false;
    const onAbort = (): void => void kill().catch(() => undefined);
    const finished = running.exited.then(async (code) => {
      exited = true;
      options.signal?.removeEventListener('abort', onAbort);
      stdout.end();
      stderr.end();
      // Killed with its container, or by somebody inside?
      const gone =
        code !== null &&
        code > 128 &&
        (await this.#assertAlive().then(
          () => false,
          () => true,
        ));
      return gone ? null : code;
    });
    const kill = async (): Promise<void> => {
      if (!exited) await this.#killTree(running, user);
      // What nobody reads any more must not hold the end back.
      stdout.resume();
      stderr.resume();
      await finished;
    };
    options.signal?.addEventListener('abort', onAbort, { once: true });
    if (options.signal?.aborted) onAbort();
    return {
      stdin: new Writable({
        write: (chunk: Buffer, _encoding, done) => {
          if (running.stdin.destroyed) done();
          else running.stdin.write(chunk, () => done());
        },
        final: (done) => {
          if (running.stdin.destroyed) done();
          else running.stdin.end(() => done());
        },
      }),
      stdout,
      stderr,
      exited: finished,
      kill,
      [Symbol.asyncDispose]: kill,
    };
  }

  async upload(
    files: Files,
    options: { base?: string; owner?: SandboxUser; mode?: number } = {},
  ): Promise<void> {
    if (Object.keys(files).length === 0) return;
    const base = options.base ?? this.workdir;
    for (const path of [base, ...Object.keys(files)]) {
      if (hasControlCharacter(path) || path.split('/').includes('..')) {
        throw taskFailure('bad_path', `files: ${JSON.stringify(path)} cannot be a path in a sandbox`);
      }
    }
    this.#refuseMemoryTmp(base);
    const { existing, missing } = await this.#walk(base);
    const tar = await packFiles(files, {
      below: missing,
      uid: uids[options.owner ?? 'agent'],
      mode: options.mode ?? 0o644,
    });
    await daemonCall('upload files', archiveMs, async () =>
      this.#parts.container.putArchive(tar, { path: existing }),
    );
  }

  async giveWorkdir(user: SandboxUser): Promise<void> {
    await this.#parts.control.ask('own', String(uids[user]), ownMs);
  }

  async read(path: string, max_bytes: number): Promise<Uint8Array | null> {
    const absolute = path.startsWith('/') ? path : `${this.workdir}/${path}`;
    if (hasControlCharacter(absolute) || absolute.split('/').includes('..')) return null;
    this.#refuseMemoryTmp(absolute);
    const slash = absolute.lastIndexOf('/');
    const { existing, missing } = await this.#walk(absolute.slice(0, slash) || '/');
    if (missing !== '') return null;
    const physical = `${existing === '/' ? '' : existing}${absolute.slice(slash)}`;
    if ((await this.#parts.control.ask('file', escaped(physical), answerMs)) !== 'yes') return null;
    return daemonCall('read file', archiveMs, async () =>
      unpackFile(await this.#parts.container.getArchive({ path: physical }), max_bytes),
    );
  }

  async killAgent(timeout_ms: number): Promise<void> {
    await this.#killUser('agent', timeout_ms);
  }

  async state(): Promise<SandboxState> {
    try {
      if (!this.#parts.control.ended) {
        return Number(await this.#parts.control.ask('oom', '', answerMs)) > 0 ? 'oom' : 'running';
      }
      const { State } = await daemonCall('inspect container', answerMs, async () =>
        this.#parts.container.inspect(),
      );
      return State.OOMKilled ? 'oom' : 'gone';
    } catch {
      return 'gone';
    }
  }

  async extend(seconds: number): Promise<void> {
    await this.#parts.control.ask('ttl', String(Math.ceil(seconds)), answerMs);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#disposal ??= (async () => {
      crashPoint('sandbox.delete:before');
      await removeContainer(this.#parts.docker, this.id, removeMs);
      this.#parts.control.close();
      await this.#parts.control.closed;
      crashPoint('sandbox.delete:after');
    })();
    await this.#disposal;
  }

  async #start(
    command: string | readonly string[],
    options: SpawnOptions,
    sinks: {
      stdout: (chunk: Buffer) => void | Promise<void>;
      stderr: (chunk: Buffer) => void | Promise<void>;
    },
  ): Promise<RunningExec> {
    return startExec(this.#parts.container, {
      command,
      user: options.user ?? 'root',
      cwd: options.cwd ?? this.workdir,
      env: options.env ?? {},
      sinks,
    });
  }

  /**
   * Ends a command and what it started. The grader runs one command at a time, so all its processes go; where marks
   * do not reach (no process slot left to look for them), the same holds for the agent.
   */
  async #killTree(running: RunningExec, user: SandboxUser): Promise<void> {
    let clean = false;
    if (user !== 'grader') {
      clean = await daemonCall('kill command', killMs, async () => running.kill()).catch(() => false);
    }
    if (!clean && user !== 'root') await this.#killUser(user, killMs);
    if (!clean && user === 'root') await this.#assertAlive();
  }

  async #killUser(user: 'agent' | 'grader', timeoutMs: number): Promise<void> {
    await killUser(this.#parts.container, this.#parts.control, {
      uid: uids[user],
      user,
      timeoutMs,
      pidsLimit: this.#parts.pidsLimit,
    });
  }

  /** Rejects when a command ended because the container did. */
  async #assertAlive(): Promise<void> {
    await this.#parts.control.ask('ping', '', answerMs);
  }

  async #walk(path: string): Promise<{ existing: string; missing: string }> {
    const answer = await this.#parts.control.ask('walk', escaped(path), answerMs);
    const [existing = '/', missing = ''] = answer.split('\t');
    return { existing, missing };
  }

  #refuseMemoryTmp(path: string): void {
    if (hasMemoryTmp(this.workdir) && `${path}/`.startsWith('/tmp/')) {
      throw taskFailure(
        'bad_path',
        `${path}: files below /tmp cannot be uploaded or read: it is kept in memory`,
      );
    }
  }
}
