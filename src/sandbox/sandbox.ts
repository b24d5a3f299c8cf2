import type { Readable, Writable } from 'node:stream';
import type { Files, Owner, Reaper, SandboxSpec } from '../contracts/index.ts';

/**
 * Who runs a command. `root` is ours (set-up, grading preparation); `agent` is the unprivileged user the policy acts
 * as; `grader` is a third user, so that nothing the agent may still own runs or is owned beside the verifier.
 * A provider that cannot tell users apart (local) runs all as itself and says so in `isolation`.
 */
export type SandboxUser = 'root' | 'agent' | 'grader';

export interface ExecOptions {
  /** Default: root. */
  readonly user?: SandboxUser;
  /** Default: the working directory. */
  readonly cwd?: string;
  /** The whole environment of the command apart from PATH, HOME and LANG, which the provider sets. */
  readonly env?: Readonly<Record<string, string>>;
  readonly stdin?: string | Uint8Array;
  /** On expiry the whole process tree is killed and the result says `timed_out`. */
  readonly timeout_ms: number;
  /** Bytes of each stream that are kept: the last ones. Default: 64 KiB. */
  readonly max_output_bytes?: number;
  readonly signal?: AbortSignal;
}

export interface ExecResult {
  /** null when the command was killed at its deadline or by a signal of ours. 128 + n for signal n. */
  readonly exit_code: number | null;
  readonly timed_out: boolean;
  /** The last `max_output_bytes` bytes, as UTF-8. */
  readonly stdout: string;
  readonly stderr: string;
  /** Bytes written, kept or not. */
  readonly stdout_bytes: number;
  readonly stderr_bytes: number;
}

export type SpawnOptions = Omit<ExecOptions, 'timeout_ms' | 'max_output_bytes' | 'stdin'>;

/** A command that runs while its output is read. */
export interface SandboxProcess extends AsyncDisposable {
  readonly stdin: Writable;
  readonly stdout: Readable;
  readonly stderr: Readable;
  /** Resolves with the exit code (128 + n for signal n), or null when the sandbox is gone. Never rejects. */
  readonly exited: Promise<number | null>;
  /** Ends the process and every descendant the provider can find. */
  kill(): Promise<void>;
}

/**
 * What the sandbox is found to be. `gone` = it vanished or its provider does not answer: infra. `oom` = the limit on
 * memory was met inside it: the agent's own doing.
 */
export type SandboxState = 'running' | 'oom' | 'gone';

/** A running sandbox. Disposing it kills it and everything in it. All failures are EpisodeError. */
export interface Sandbox extends AsyncDisposable {
  readonly provider: string;
  readonly id: string;
  readonly workdir: string;
  /** HOME of the agent user, writable by it. */
  readonly agent_home: string;
  /** Path of the agent CLI inside the sandbox, when one was mounted. */
  readonly cli_path: string | null;
  /** How the agent reaches the gateway: a Unix socket's path inside the sandbox. */
  readonly gateway_socket: string;
  readonly isolation: 'container' | 'microvm' | 'process';

  /** Runs `command` with bash and waits for it. A non-zero exit is a result, not an error. */
  exec(command: string | readonly string[], options: ExecOptions): Promise<ExecResult>;
  spawn(command: string | readonly string[], options: SpawnOptions): Promise<SandboxProcess>;
  /** Writes files below `base` (default: the working directory), creating directories. Owner default: agent. */
  upload(files: Files, options?: { base?: string; owner?: SandboxUser; mode?: number }): Promise<void>;
  /** Makes `user` the owner of the whole working directory. Symbolic links are not followed, nothing outside is touched. */
  giveWorkdir(user: SandboxUser): Promise<void>;
  /** Reads one file whole; null when it is not a regular file (a symbolic link is not followed) or is larger than `max_bytes`. */
  read(path: string, max_bytes: number): Promise<Uint8Array | null>;
  /** Kills every process of the agent user, and resolves only when none is left; rejects (infra) past `timeout_ms`. */
  killAgent(timeout_ms: number): Promise<void>;
  state(): Promise<SandboxState>;
  /** Extends the provider's own time to live; nothing where there is none. */
  extend(seconds: number): Promise<void>;
}

export interface SandboxRequest {
  readonly spec: SandboxSpec;
  readonly owner: Owner;
  /** Directory on this machine that holds `gw.sock`, mounted (docker) or used in place (local). */
  readonly gateway_dir: string;
  /** Agent CLI binary on this machine to be mounted read-only; null for none. */
  readonly cli_binary: string | null;
  /** Seconds after which anybody may reap it. */
  readonly ttl_seconds: number;
  readonly signal: AbortSignal;
}

export interface SandboxProvider extends Reaper, AsyncDisposable {
  /** One clear error when this provider cannot work here (no daemon, no bash, no socket mounts). Safe to repeat. */
  probe(signal?: AbortSignal): Promise<void>;
  create(request: SandboxRequest): Promise<Sandbox>;
}
