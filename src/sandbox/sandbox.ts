import type { Readable, Writable } from 'node:stream';
import type { EpisodeError, FileContent, Owner, Reaper, SandboxSpec } from '../contracts/index.ts';

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
 * memory was met inside it, `disk_full` = it wrote more than its disk may hold: the agent's own doing.
 */
export type SandboxState = 'running' | 'oom' | 'disk_full' | 'gone';

/** One regular file that was taken out of a sandbox. */
export interface CollectedFile {
  /** Relative to the working directory, `/` between its parts. */
  readonly path: string;
  readonly bytes: Uint8Array;
  readonly executable: boolean;
}

/** Bounds of what is taken out; past one of them nothing is, and the error (class task, `artifacts_too_large`) says which. */
export interface CollectBounds {
  readonly max_bytes: number;
  readonly max_files: number;
  readonly timeout_ms: number;
}

/** Files to be written: text, base64, or bytes as they are. */
export type UploadFiles = Readonly<Record<string, FileContent | Uint8Array>>;

/** A running sandbox. Disposing it kills it and everything in it. All failures are EpisodeError. */
export interface Sandbox extends AsyncDisposable {
  readonly provider: string;
  readonly id: string;
  readonly workdir: string;
  /** HOME of the agent user, writable by it. */
  readonly agent_home: string;
  /** Path of the agent CLI inside the sandbox, when one was mounted. */
  readonly cli_path: string | null;
  /** Why it is null, where the provider knows. */
  readonly no_cli?: EpisodeError;
  /** How the agent reaches the gateway: a Unix socket's path inside the sandbox. Nobody listens there without a gateway. */
  readonly gateway_socket: string;
  /** URL of the HTTP proxy that leads to the hosts of an allow list; null where there is none. Commands have it in their environment. */
  readonly proxy_url: string | null;
  /** What an episode notes of its sandbox, beyond its end too. Default: nothing. */
  readonly metrics?: Readonly<Record<string, number>>;
  readonly isolation: 'container' | 'microvm' | 'process';
  /** What is known of its wait, when it was made ahead of its episode. */
  readonly warm?: WarmStart;

  /** Runs `command` with bash and waits for it. A non-zero exit is a result, not an error. */
  exec(command: string | readonly string[], options: ExecOptions): Promise<ExecResult>;
  spawn(command: string | readonly string[], options: SpawnOptions): Promise<SandboxProcess>;
  /** Writes files below `base` (default: the working directory), creating directories. Owner default: agent. */
  upload(files: UploadFiles, options?: { base?: string; owner?: SandboxUser; mode?: number }): Promise<void>;
  /** Makes `user` the owner of the whole working directory. Symbolic links are not followed, nothing outside is touched. */
  giveWorkdir(user: SandboxUser): Promise<void>;
  /** Reads one file whole; null when it is not a regular file (a symbolic link is not followed) or is larger than `max_bytes`. */
  read(path: string, max_bytes: number): Promise<Uint8Array | null>;
  /**
   * Takes regular files below the working directory out: each of `paths` is one, or a directory of them; one that is
   * absent gives nothing. Links, devices and pipes are left out, and no link is followed. The agent must not be running.
   */
  collect(paths: readonly string[], bounds: CollectBounds): Promise<readonly CollectedFile[]>;
  /**
   * Keeps the files as they are now under a name that outlives the sandbox, and gives that name; absent where the
   * provider cannot. Its labels say whose it is and when it was kept. Memory, /tmp and what is mounted are not kept.
   */
  snapshot?(owner: Owner, timeout_ms: number): Promise<string>;
  /** How many processes of the agent user there are; absent where that is not cheap to know. */
  countAgent?(timeout_ms: number): Promise<number>;
  /** Kills every process of the agent user, and resolves only when none is left; rejects (infra) past `timeout_ms`. */
  killAgent(timeout_ms: number): Promise<void>;
  state(): Promise<SandboxState>;
  /** Extends the provider's own time to live; nothing where there is none. */
  extend(seconds: number): Promise<void>;
}

export interface SandboxRequest {
  readonly spec: SandboxSpec;
  readonly owner: Owner;
  /**
   * Directory on this machine that holds `gw.sock`, mounted (docker) or used in place (local). null: no gateway, as no
   * agent runs there.
   */
  readonly gateway_dir: string | null;
  /** Agent CLI binary on this machine to be mounted read-only; null for none. */
  readonly cli_binary: string | null;
  /** Seconds after which anybody may reap it. */
  readonly ttl_seconds: number;
  /** Start from a state that `Sandbox.snapshot` kept, instead of from the image. Default: null. */
  readonly snapshot?: string | null;
  /** What should run in it already when it was made ahead of its episode. Default: nothing. */
  readonly ahead?: Ahead | null;
  /** Seconds until it has to be ready, waiting for a free place not counted; kept by `remote` providers. Default: 180. */
  readonly boot_seconds?: number;
  /** Seconds to wait for a free place with a provider that limits them. Default: 1800. */
  readonly wait_seconds?: number;
  readonly signal: AbortSignal;
}

/** Something that may be started in a sandbox before anybody knows for which episode. */
export interface Ahead {
  /** Names all that `start` depends on: a sandbox made ahead is given only to requests with the same key. */
  readonly key: string;
  /** Resolves when it waits. Rejects when it cannot; the sandbox is then removed. */
  start(sandbox: Sandbox, signal: AbortSignal): Promise<StartedAhead>;
}

/** What was started ahead. Disposing it ends it and leaves the sandbox; it also ends with its sandbox. */
export interface StartedAhead extends AsyncDisposable {
  /** Whether it still waits, as far as is known without asking. */
  alive(): boolean;
}

/** How a sandbox made ahead was found when it was given out. */
export interface WarmStart {
  readonly ahead: StartedAhead | null;
}

/** A sandbox ahead of its episode: `owner` names the worker, and no run. */
export type PrepareRequest = Omit<SandboxRequest, 'gateway_dir' | 'snapshot' | 'ahead'>;

/** What a sandbox made ahead gets of its attempt. */
export type AssignRequest = Pick<SandboxRequest, 'ttl_seconds' | 'signal'> & { readonly gateway_dir: string };

/** A sandbox that waits for an episode. Disposing it before it was assigned removes it. */
export interface PreparedSandbox extends AsyncDisposable {
  readonly id: string;
  /** The sandbox as it will be, for what is started in it ahead; nobody answers at its gateway socket yet. */
  readonly sandbox: Sandbox;
  /** Whether it still works, asked over a standing channel. Never rejects. */
  check(timeout_ms: number): Promise<boolean>;
  /**
   * Makes it the sandbox of an attempt, once: its gateway socket leads to `gateway_dir` from now on, and its time to live
   * begins anew. A failure (infra) removes it.
   */
  assign(request: AssignRequest): Promise<Sandbox>;
}

/** A kept final state. */
export interface KeptSnapshot {
  readonly name: string;
  readonly owner: Owner;
  /** Epoch milliseconds. */
  readonly created_at: number;
}

export interface SandboxProvider extends Reaper, AsyncDisposable {
  /**
   * Sandboxes boot on the machines of a service, so that how many boot at once is not for this one to limit; there may be
   * no free place, which is waited for (`wait_seconds`). Default: false.
   */
  readonly remote?: boolean;
  /** One clear error when this provider cannot work here (no daemon, no bash, no socket mounts). Safe to repeat. */
  probe(signal?: AbortSignal): Promise<void>;
  create(request: SandboxRequest): Promise<Sandbox>;
  /**
   * Brings what sandboxes of `spec` are made from to where they are made: its image is pulled or built, once however many
   * ask. Absent where there is nothing to bring. Rejects with class task (no such image, a build that fails) or infra.
   */
  provide?(spec: SandboxSpec, signal: AbortSignal): Promise<void>;
  /** Makes a sandbox ahead of its episode; absent where the provider cannot. */
  prepare?(request: PrepareRequest): Promise<PreparedSandbox>;
  /** Kept final states of a pool, newest first; absent where the provider keeps none. */
  listSnapshots?(pool: string): Promise<readonly KeptSnapshot[]>;
  /** Removes a kept final state; one that is not there is fine. */
  removeSnapshot?(name: string): Promise<void>;
}
