import type { Sandbox as E2bApi } from 'e2b';
import { EpisodeError } from '../../contracts/index.ts';
import { infraFailure, reasonOf, taskFailure } from '../sandbox-failure.ts';
import { accounts } from './accounts.ts';
import { Channel, ChannelError, type ChannelParts } from './channel.ts';
import { Inside } from './inside.ts';
import { insideFiles } from './inside-files.ts';

/** A sandbox whose hand answers, and what was found in it. */
export interface Booted {
  readonly channel: Channel;
  readonly inside: Inside;
  /** Real path. */
  readonly workdir: string;
  readonly cliPath: string | null;
  readonly oomBefore: number;
}

export interface BootOptions extends Omit<ChannelParts, 'api'> {
  readonly api: E2bApi;
  readonly template: string;
  readonly workdir: string;
  readonly bootMs: number;
  readonly signal: AbortSignal;
}

/**
 * Whether the agent could become root: with `NoNewPrivs` no program gives it more than it has, neither su nor the sudo
 * that a template's own user may use without a password. Prints `root` when it could; then the CLI's path.
 */
const lookAround = `
while read -r name value; do [[ $name == NoNewPrivs: ]] && kept=$value; done </proc/self/status
[[ $kept == 1 && $UID != 0 ]] || printf root
printf '\\n'; command -v claude || :
`;

/** Writes the hand's program, opens the way to it, and lets it make the sandbox ready. */
export async function bootInside(options: BootOptions): Promise<Booted> {
  const { api, template, signal, bootMs } = options;
  const deadline = performance.now() + bootMs;
  const left = (): number => Math.max(1, Math.ceil(deadline - performance.now()));
  let channel: Channel | undefined;
  try {
    await api.files.write([...insideFiles()], { user: 'root', requestTimeoutMs: left(), signal });
    channel = await Channel.open({
      ...options,
      timings: { ...options.timings, start: Math.min(options.timings.start, left()) },
    });
    signal.throwIfAborted();
    const inside = new Inside(channel);
    const bounds = (): { timeout_ms: number; signal: AbortSignal } => ({ timeout_ms: left(), signal });
    const prepared = await inside.verb(
      'prepare',
      {
        name: options.name,
        workdir: options.workdir,
        accounts: (['agent', 'grader'] as const).map((name) => ({ name, ...accounts[name] })),
      },
      bounds(),
    );
    if (prepared.code !== 0) {
      throw taskFailure(
        'template_unfit',
        `sandbox.template: ${template} cannot be prepared: ${prepared.why}`,
      );
    }
    const { workdir, path } = JSON.parse(prepared.output.toString('utf8')) as {
      workdir: string;
      path: string;
    };
    inside.path = path;
    const [found, looked] = await Promise.all([
      inside.exec(lookAround, { ...bounds(), user: 'agent', cwd: '/' }),
      inside.verb('look', { workdir }, bounds()),
    ]);
    const [root = '', cli = ''] = found.stdout.split('\n');
    if (root !== '') {
      throw taskFailure(
        'template_unfit',
        `sandbox.template: ${template}: its agent could become root, which would put the reward in its hands`,
      );
    }
    const { oom } = JSON.parse(looked.output.toString('utf8')) as { oom: number };
    return { channel, inside, workdir, cliPath: cli.startsWith('/') ? cli : null, oomBefore: oom };
  } catch (error) {
    await channel?.[Symbol.asyncDispose]();
    signal.throwIfAborted();
    throw bootFailure(error, template);
  }
}

function bootFailure(error: unknown, template: string): EpisodeError {
  if (error instanceof EpisodeError)
    return new EpisodeError({ ...error.failure, phase: 'boot' }, { cause: error });
  if (error instanceof ChannelError && error.exit === 127) {
    return taskFailure('no_python', `sandbox.template: ${template} has no python3, which sandboxes need`, {
      cause: error,
    });
  }
  return infraFailure('boot_failed', `an E2B sandbox was made, but runs no commands: ${reasonOf(error)}`, {
    phase: 'boot',
    cause: error,
  });
}
