import { PassThrough, Writable } from 'node:stream';
import type Docker from 'dockerode';
import type { Owner } from '../../contracts/index.ts';
import { crashPoint } from '../../observe/index.ts';
import { killOnAbort, runBounded } from '../bounded-command.ts';
import { collectFiles } from '../collect-files.ts';
import { OutputTail } from '../output-tail.ts';
import { infraFailure, reasonOf } from '../sandbox-failure.ts';
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
import { startExec, type RunningExec } from './container-exec.ts';
import { ContainerFiles } from './container-files.ts';
import { gatewaySocket } from './container-spec.ts';
import type { ControlChannel } from './control-channel.ts';
import { daemonCall, removeContainer } from './daemon.ts';
import type { Sink } from './demultiplex.ts';
import { killUser } from './kill-user.ts';
import { commitContainer } from './snapshots.ts';
import { homes, uids } from './users.ts';

const answerMs = 30_000;
const ownMs = 120_000;
const removeMs = 60_000;
/** How long killing a command's tree may take before the whole user's processes are killed. */
const killMs = 15_000;
const defaultOutputBytes = 64 * 1024;

/** Takes what a stream can hold and waits for its reader then. A stream that was closed takes everything. */
function pacedSink(stream: PassThrough): Sink {
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
  /** What goes with the container, and after it. */
  readonly attached: readonly AsyncDisposable[];
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
  readonly proxy_url = null;
  readonly #parts: DockerSandboxParts;
  readonly #files: ContainerFiles;
  #disposal: Promise<void> | undefined;

  constructor(parts: DockerSandboxParts) {
    this.#parts = parts;
    this.#files = new ContainerFiles(parts.container, parts.control, parts.workdir);
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

    const { code, timedOut } = await runBounded(
      { exited: running.exited, kill: () => this.#killTree(running, user) },
      options,
    );
    if (!timedOut && (code === null || code >= 126)) await this.#assertAlive();
    if (!timedOut && !running.started()) {
      throw infraFailure(
        'command_not_started',
        `Docker could not start a command: ${reasonOf(stdout.text() || stderr.text()).slice(-500)}`,
      );
    }
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
    const user = options.user ?? 'root';
    const stdout = new PassThrough();
    const stderr = new PassThrough();
    const running = await this.#start(command, options, {
      stdout: pacedSink(stdout),
      stderr: pacedSink(stderr),
    });
    let ended = false;
    const exited = running.exited.then(async (code) => {
      ended = true;
      stdout.end();
      stderr.end();
      // Killed with its container, or by somebody inside?
      const gone = code !== null && code >= 126 && (await this.#isGone());
      return gone ? null : code;
    });
    const kill = async (): Promise<void> => {
      if (!ended) await this.#killTree(running, user);
      // What nobody reads any more must not hold the end back.
      stdout.resume();
      stderr.resume();
      await exited;
    };
    killOnAbort({ exited, kill }, options.signal);
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
      exited,
      kill,
      [Symbol.asyncDispose]: kill,
    };
  }

  async upload(
    files: UploadFiles,
    options: { base?: string; owner?: SandboxUser; mode?: number } = {},
  ): Promise<void> {
    await this.#files.upload(files, {
      base: options.base ?? this.workdir,
      uid: uids[options.owner ?? 'agent'],
      mode: options.mode ?? 0o644,
    });
  }

  async giveWorkdir(user: SandboxUser): Promise<void> {
    await this.#parts.control.ask('own', String(uids[user]), ownMs);
  }

  async read(path: string, max_bytes: number): Promise<Uint8Array | null> {
    return this.#files.read(path, max_bytes);
  }

  async collect(paths: readonly string[], bounds: CollectBounds): Promise<readonly CollectedFile[]> {
    return collectFiles(this, paths, bounds);
  }

  async snapshot(owner: Owner, timeout_ms: number): Promise<string> {
    return commitContainer(this.#parts.container, owner, timeout_ms);
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
      for (const part of this.#parts.attached) await part[Symbol.asyncDispose]();
      crashPoint('sandbox.delete:after');
    })();
    await this.#disposal;
  }

  async #start(
    command: string | readonly string[],
    options: SpawnOptions,
    sinks: { stdout: Sink; stderr: Sink },
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

  async #isGone(): Promise<boolean> {
    return this.#assertAlive().then(
      () => false,
      () => true,
    );
  }
}
