import type Docker from 'dockerode';
import type { Owner } from '../../contracts/index.ts';
import { crashPoint, type Logger } from '../../observe/index.ts';
import { runBounded } from '../bounded-command.ts';
import { collectFiles } from '../collect-files.ts';
import { OutputTail } from '../output-tail.ts';
import { proxyEnvironment, type SandboxEgress } from '../egress/index.ts';
import type { Sink } from '../paced-sink.ts';
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
import type { Tunnel } from '../tunnel/index.ts';
import { startExec, type RunningExec } from './container-exec.ts';
import { ContainerFiles } from './container-files.ts';
import { gatewaySocket } from './container-spec.ts';
import type { ControlChannel } from './control-channel.ts';
import { daemonCall, removeContainer } from './daemon.ts';
import { writtenBytes } from './disk-limit.ts';
import { DiskWatch } from './disk-watch.ts';
import { killUser } from './kill-user.ts';
import { commitContainer } from './snapshots.ts';
import { spawnedProcess } from './spawned-process.ts';
import { homes, uids } from './users.ts';

const answerMs = 30_000;
const ownMs = 120_000;
const removeMs = 60_000;
/** How long killing a command's tree may take before the whole user's processes are killed. */
const killMs = 15_000;
const defaultOutputBytes = 64 * 1024;

export interface DockerSandboxParts {
  readonly docker: Docker;
  readonly container: Docker.Container;
  readonly control: ControlChannel;
  readonly workdir: string;
  readonly cliPath: string | null;
  readonly pidsLimit: number;
  /** Bytes it may write to its layer; null: the daemon sees to that. */
  readonly diskBytes: number | null;
  readonly log: Logger;
  /** The way to the hosts of an allow list; null where there is none. */
  readonly egress: SandboxEgress | null;
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
  readonly proxy_url: string | null;
  readonly #parts: DockerSandboxParts;
  readonly #files: ContainerFiles;
  readonly #disk: DiskWatch | null;
  /** Commands of root, such as a task's set-up, that run; those of others are found by their users. */
  readonly #ofRoot = new Set<RunningExec>();
  /** Ends the watching of an agent whose processes may outlive their command. */
  #agentLeft: (() => void) | undefined;
  #tunnel: Tunnel | undefined;
  #disposal: Promise<void> | undefined;

  constructor(parts: DockerSandboxParts) {
    this.#parts = parts;
    this.#files = new ContainerFiles(parts.container, parts.control, parts.workdir);
    this.#disk =
      parts.diskBytes === null
        ? null
        : new DiskWatch({
            limitBytes: parts.diskBytes,
            measure: () => writtenBytes(parts.container),
            onOver: () => this.#endAll(),
            log: parts.log,
          });
    this.id = parts.container.id;
    this.workdir = parts.workdir;
    this.cli_path = parts.cliPath;
    this.proxy_url = parts.egress?.proxyUrl ?? null;
  }

  /** Gives it the way to the gateway that ends with it, where the gateway's socket is not mounted. */
  useTunnel(tunnel: Tunnel): void {
    this.#tunnel = tunnel;
  }

  get metrics(): Readonly<Record<string, number>> {
    return this.#parts.egress?.metrics() ?? {};
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
    if (user === 'root') {
      this.#ofRoot.add(running);
      void running.exited.then(() => this.#ofRoot.delete(running));
    }
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
    return spawnedProcess({
      // What is spawned as root is the worker's own (a relay, an archive): it writes nothing, and goes on.
      start: (sinks) => this.#start(command, options, sinks, user !== 'root'),
      killTree: (running) => this.#killTree(running, user),
      isGone: () => this.#isGone(),
      signal: options.signal,
    });
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

  async countAgent(timeout_ms: number): Promise<number> {
    return Number.parseInt(await this.#parts.control.ask('count', String(uids.agent), timeout_ms), 10);
  }

  async killAgent(timeout_ms: number): Promise<void> {
    await this.#killUser('agent', timeout_ms);
    this.#agentLeft?.();
    this.#agentLeft = undefined;
  }

  async state(): Promise<SandboxState> {
    try {
      if (!this.#parts.control.ended) {
        if (Number(await this.#parts.control.ask('oom', '', answerMs)) > 0) return 'oom';
        return this.#disk?.over === true ? 'disk_full' : 'running';
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
      await this.#disk?.stop();
      await this.#parts.egress?.[Symbol.asyncDispose]();
      const tunnel = this.#tunnel?.[Symbol.asyncDispose]();
      await removeContainer(this.#parts.docker, this.id, removeMs);
      await tunnel;
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
    writes = true,
  ): Promise<RunningExec> {
    const user = options.user ?? 'root';
    if (user === 'agent') this.#agentLeft ??= this.#disk?.begin();
    const ended = writes ? this.#disk?.begin() : undefined;
    try {
      const running = await startExec(this.#parts.container, {
        command,
        user,
        cwd: options.cwd ?? this.workdir,
        env: { ...proxyEnvironment(this.proxy_url), ...options.env },
        sinks,
      });
      void running.exited.then(() => ended?.());
      return running;
    } catch (error) {
      ended?.();
      throw error;
    }
  }

  /** Ends everything that could write. */
  async #endAll(): Promise<void> {
    const killing = [...this.#ofRoot].map((running) => running.kill().catch(() => false));
    for (const user of ['agent', 'grader'] as const) await this.#killUser(user, answerMs);
    await Promise.all(killing);
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
