import { randomBytes, randomUUID } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { createInterface, type Interface } from 'node:readline';
import { EpisodeError, contentHash, type EffectiveLimits } from '../../contracts/index.ts';
import type { Ahead, Sandbox, SandboxProcess, StartedAhead } from '../../sandbox/sandbox.ts';
import type { StartGate } from '../start-gate.ts';
import { readCliOutput, type CliOutput } from './cli-output.ts';
import { waitingCommand } from './command.ts';
import { within } from './within.ts';

const lookScript = readFileSync(new URL('./look.sh', import.meta.url), 'utf8');

const startMs = 60_000;
const lookMs = 5_000;

/** Names everything that a CLI started ahead was told and that its episode must have, too. */
function keyOf(limits: EffectiveLimits): string {
  const nothing = { cliPath: '', gatewaySocket: '', bearer: '', home: '', sessionId: '' };
  return contentHash(waitingCommand({ ...nothing, limits }));
}

/** A shell that stands beside the CLI (look.sh) and answers in a millisecond, where a command of its own takes 70. */
class Lookout implements AsyncDisposable {
  readonly #shell: SandboxProcess;
  readonly #lines: Interface;
  #ended = false;

  constructor(shell: SandboxProcess) {
    this.#shell = shell;
    shell.stdin.on('error', () => {});
    shell.stderr.resume();
    shell.stderr.on('error', () => {});
    shell.stdout.on('error', () => {});
    this.#lines = createInterface({ input: shell.stdout });
    this.#lines.once('close', () => {
      this.#ended = true;
    });
  }

  /** Its next line after `word`; null when it ended, was silent for so long, or the signal aborted. */
  async ask(word: string, ms: number, signal?: AbortSignal): Promise<string | null> {
    let onAbort = (): void => {};
    const answer = new Promise<string | null>((resolve) => {
      onAbort = () => resolve(null);
      this.#lines.once('line', resolve);
      this.#lines.once('close', onAbort);
      if (this.#ended || signal?.aborted === true) onAbort();
      else signal?.addEventListener('abort', onAbort, { once: true });
    });
    this.#shell.stdin.write(`${word}\n`);
    try {
      return await within(ms, answer, null);
    } finally {
      signal?.removeEventListener('abort', onAbort);
      this.#lines.removeAllListeners('line').removeListener('close', onAbort);
    }
  }

  /** Lets it end by itself, which nobody need wait for. */
  leave(): void {
    this.#shell.stdin.end();
    this.#lines.close();
    this.#shell.stdout.resume();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.leave();
    await this.#shell[Symbol.asyncDispose]();
  }
}

/** A CLI that has started and waits for its prompt. */
export class WaitingCli implements StartedAhead {
  /** Its credential, minted before there was a session: nobody takes it until one adopts it. */
  readonly bearer: string;
  readonly process: SandboxProcess;
  readonly output: CliOutput;
  readonly #key: string;
  readonly #sandbox: Sandbox;
  readonly #lookout: Lookout;
  #alive = true;
  #asked = false;

  constructor(parts: {
    readonly bearer: string;
    readonly process: SandboxProcess;
    readonly output: CliOutput;
    readonly key: string;
    readonly sandbox: Sandbox;
    readonly lookout: Lookout;
  }) {
    this.bearer = parts.bearer;
    this.process = parts.process;
    this.output = parts.output;
    this.#key = parts.key;
    this.#sandbox = parts.sandbox;
    this.#lookout = parts.lookout;
    void parts.process.exited.then(() => {
      this.#alive = false;
    });
  }

  alive(): boolean {
    return this.#alive;
  }

  /**
   * Whether a CLI started now would be no other one: it lives, its limits and the sandbox's places are those it was told,
   * and the set-up changed nothing that it has read. Asked once, when the prompt is there.
   */
  async serves(sandbox: Sandbox, limits: EffectiveLimits): Promise<boolean> {
    if (this.#asked || !this.#alive) return false;
    this.#asked = true;
    const told = this.#sandbox;
    const fits =
      this.#key === keyOf(limits) &&
      (['id', 'workdir', 'agent_home', 'cli_path', 'gateway_socket', 'proxy_url'] as const).every(
        (place) => told[place] === sandbox[place],
      );
    const answer = fits ? await this.#lookout.ask('look', lookMs) : null;
    this.#lookout.leave();
    return answer === 'same' && this.#alive;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all([this.process[Symbol.asyncDispose](), this.#lookout[Symbol.asyncDispose]()]);
  }
}

function notStarted(why: string): EpisodeError {
  return new EpisodeError({
    class: 'infra',
    phase: 'boot',
    code: 'cli_not_started',
    message: `the Claude Code CLI could not be started ahead: ${why}`,
  });
}

async function start(
  sandbox: Sandbox,
  limits: EffectiveLimits,
  startGate: StartGate,
  signal: AbortSignal,
): Promise<WaitingCli> {
  if (sandbox.cli_path === null) throw notStarted('this worker found none to mount');
  const bearer = `rp-${randomBytes(32).toString('base64url')}`;
  const sessionId = randomUUID();
  const command = waitingCommand({
    cliPath: sandbox.cli_path,
    limits,
    sessionId,
    gatewaySocket: sandbox.gateway_socket,
    bearer,
    home: sandbox.agent_home,
  });
  const leave = await startGate.enter(signal, 'ahead');
  const opened: AsyncDisposable[] = [];
  try {
    const cwd = sandbox.workdir;
    const process = await sandbox.spawn(command.argv, { user: 'agent', cwd, env: command.env });
    opened.push(process);
    // A CLI that is already dead does not read its prompt; its exit tells more than the broken pipe.
    process.stdin.on('error', () => {});
    const output = readCliOutput(process, [bearer]);
    const shell = ['bash', '--noprofile', '--norc', '-c', lookScript, 'look'];
    const lookout = new Lookout(
      await sandbox.spawn([...shell, cwd, sandbox.agent_home, sandbox.cli_path, sessionId], { cwd: '/' }),
    );
    opened.push(lookout);
    const cli = new WaitingCli({ bearer, process, output, key: keyOf(limits), sandbox, lookout });
    const ended = process.exited.then(() => 'gone');
    const answer = await Promise.race([lookout.ask('ready', startMs, signal), ended]);
    signal.throwIfAborted();
    if (answer !== 'ready' || !cli.alive()) {
      throw notStarted(cli.alive() ? `it did not come to rest in ${startMs} ms` : output.stderr().trim());
    }
    return cli;
  } catch (error) {
    await Promise.all(opened.map((part) => part[Symbol.asyncDispose]()));
    throw error;
  } finally {
    leave();
  }
}

/** The CLI as something to be started in a sandbox before its prompt is there. Episodes go first at the gate. */
export function claudeCodeAhead(limits: EffectiveLimits, startGate: StartGate): Ahead {
  return { key: keyOf(limits), start: (sandbox, signal) => start(sandbox, limits, startGate, signal) };
}
