import { PassThrough, Readable } from 'node:stream';
import { killOnAbort, runBounded } from '../bounded-command.ts';
import { tailText } from '../output-tail.ts';
import { pacedSink } from '../paced-sink.ts';
import { infraFailure } from '../sandbox-failure.ts';
import type { ExecOptions, ExecResult, SandboxProcess, SandboxUser, SpawnOptions } from '../sandbox.ts';
import { accounts } from './accounts.ts';
import type { Channel } from './channel.ts';
import { startRemote, type RemoteCommand, type RemoteExit } from './remote-command.ts';

const defaultOutputBytes = 64 * 1024;
/** How long killing a command's tree may take before all of its user's processes are killed. */
const killTreeMs = 10_000;
const killUserMs = 15_000;

type Command = string | readonly string[];

async function within(ms: number, promise: Promise<unknown>): Promise<boolean> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<false>((resolve) => {
    timer = setTimeout(() => resolve(false), ms);
  });
  try {
    return await Promise.race([promise.then(() => true), late]);
  } finally {
    clearTimeout(timer);
  }
}

/** The result of a verb (inside/verbs.py). */
export interface VerbResult {
  readonly code: number;
  readonly output: Buffer;
  readonly why: string;
}

/** Commands inside a sandbox, by the channel to its hand. */
export class Inside {
  readonly #channel: Channel;
  /** PATH of the template; empty until it is known. */
  path = '';

  constructor(channel: Channel) {
    this.#channel = channel;
  }

  async exec(command: Command, options: ExecOptions & { cwd: string }): Promise<ExecResult> {
    const user = options.user ?? 'root';
    const limit = options.max_output_bytes ?? defaultOutputBytes;
    const out: Buffer[] = [];
    const err: Buffer[] = [];
    const running = startRemote(this.#channel, {
      run: { command, cwd: options.cwd, env: options.env ?? {} },
      user,
      path: this.path,
      tail: limit,
      sinks: { out: (chunk) => void out.push(chunk), err: (chunk) => void err.push(chunk) },
    });
    running.stdin.end(options.stdin ?? '');
    const { code, timedOut } = await runBounded(
      { exited: running.exited.then((exit) => exit.code), kill: () => this.#killTree(running, user) },
      options,
    );
    const exit = await running.exited;
    if (exit.code === null) throw this.#channel.lost.reason;
    const stderr = tailText(Buffer.concat(err), exit.bytes.err);
    if (!exit.started) throw infraFailure('command_not_started', `a command could not be started: ${stderr}`);
    return {
      exit_code: code,
      timed_out: timedOut,
      stdout: tailText(Buffer.concat(out), exit.bytes.out),
      stderr,
      stdout_bytes: exit.bytes.out,
      stderr_bytes: exit.bytes.err,
    };
  }

  spawn(command: Command, options: SpawnOptions & { cwd: string }): SandboxProcess {
    const user = options.user ?? 'root';
    const stdout = new PassThrough({ highWaterMark: 64 * 1024 });
    const stderr = new PassThrough({ highWaterMark: 64 * 1024 });
    const running = startRemote(this.#channel, {
      run: { command, cwd: options.cwd, env: options.env ?? {} },
      user,
      path: this.path,
      tail: null,
      sinks: { out: pacedSink(stdout), err: pacedSink(stderr) },
    });
    let ended = false;
    const exited = running.exited.then((exit: RemoteExit) => {
      ended = true;
      stdout.end();
      stderr.end();
      return exit.started ? exit.code : 126;
    });
    const kill = async (): Promise<void> => {
      if (ended) return;
      // What nobody reads any more must not hold the end back.
      stdout.resume();
      stderr.resume();
      await this.#killTree(running, user);
      await exited;
    };
    killOnAbort({ exited, kill }, options.signal);
    return { stdin: running.stdin, stdout, stderr, exited, kill, [Symbol.asyncDispose]: kill };
  }

  /** Has root do something. Rejects (infra) when the sandbox is gone, or does not do it in time. */
  async verb(
    verb: string,
    args: Readonly<Record<string, unknown>>,
    options: {
      timeout_ms: number;
      max_output_bytes?: number;
      stdin?: Iterable<Uint8Array>;
      signal?: AbortSignal;
    },
  ): Promise<VerbResult> {
    const out: Buffer[] = [];
    const err: Buffer[] = [];
    const running = startRemote(this.#channel, {
      run: { verb, args },
      user: 'root',
      path: this.path,
      tail: options.max_output_bytes ?? defaultOutputBytes,
      sinks: { out: (chunk) => void out.push(chunk), err: (chunk) => void err.push(chunk) },
    });
    if (options.stdin === undefined) running.stdin.end();
    else Readable.from(options.stdin, { objectMode: false }).pipe(running.stdin);
    const { code, timedOut } = await runBounded(
      { exited: running.exited.then((exit) => exit.code), kill: () => this.#killTree(running, 'root') },
      options,
    );
    if (timedOut) {
      throw infraFailure('sandbox_silent', `the sandbox did not do ${verb} in ${options.timeout_ms} ms`);
    }
    if (code === null) throw this.#channel.lost.reason;
    return { code, output: Buffer.concat(out), why: Buffer.concat(err).toString('utf8').trim() };
  }

  /** Kills every process of a user, and resolves when none is left. Rejects (infra) past the deadline. */
  async killUser(user: SandboxUser, timeout_ms: number): Promise<void> {
    const { uid } = accounts[user];
    const { code } = await this.verb(
      'kill_user',
      { uid, ms: timeout_ms },
      { timeout_ms: timeout_ms + 5_000 },
    );
    if (code !== 0) {
      throw infraFailure(
        'kill_failed',
        `processes of the ${user} are left after ${timeout_ms} ms of killing them`,
      );
    }
  }

  /** Ends a command and all it started: by its keeper, and where that takes too long with everything of its user. */
  async #killTree(running: RemoteCommand, user: SandboxUser): Promise<void> {
    running.kill();
    if (await within(killTreeMs, running.exited)) return;
    if (user !== 'root') await this.killUser(user, killUserMs);
    if (await within(killUserMs, running.exited)) return;
    throw infraFailure('kill_failed', `a command of the ${user} could not be ended`);
  }
}
