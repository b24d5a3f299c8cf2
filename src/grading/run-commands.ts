import type { EffectiveLimits, Verify, VerifyOutcome } from '../contracts/index.ts';
import type { ExecResult, Sandbox } from '../sandbox/sandbox.ts';
import { GradeError } from './grade-error.ts';
import { innerShell } from './prepare.ts';
import { exitsAsPytest } from './shell-command.ts';

const tailChars = 2_000;
/** Enough for the tail in any script: four bytes a character. */
const keptBytes = 4 * tailChars;

/**
 * The environment of verify commands beside the sandbox's own PATH, HOME and LANG. None of the agent's: no BASH_ENV, no
 * PYTHONPATH. User site-packages stay out, no byte code is left beside the sources, and git runs no hooks of a repository
 * (a verifier that wants them says `git -c core.hooksPath=...`, which wins).
 */
const environment = {
  ...innerShell,
  PYTHONNOUSERSITE: '1',
  PYTHONDONTWRITEBYTECODE: '1',
  GIT_CONFIG_COUNT: '2',
  GIT_CONFIG_KEY_0: 'core.hooksPath',
  GIT_CONFIG_VALUE_0: '/dev/null',
  GIT_CONFIG_KEY_1: 'core.fsmonitor',
  GIT_CONFIG_VALUE_1: 'false',
};

/** A command whose exit says that the verifier itself did not work. */
export interface CommandFault {
  /** Which of the commands. */
  readonly index: number;
  readonly code: 'verifier_missing' | 'verifier_error';
  readonly message: string;
}

export interface VerifyRun {
  readonly outcomes: readonly VerifyOutcome[];
  readonly faults: readonly CommandFault[];
  /** True when a command was killed: at a deadline, or for want of memory. */
  readonly cutShort: boolean;
  readonly timeouts: number;
}

type Limits = Pick<EffectiveLimits, 'grade_seconds' | 'grade_total_seconds'>;

function sandboxGone(outcomes: readonly VerifyOutcome[]): GradeError {
  return new GradeError(
    { class: 'infra', code: 'sandbox_gone', message: 'the sandbox vanished during grading' },
    outcomes,
  );
}

/** What an exit code says of the verifier itself; null when it only says that the command passed or failed. */
export function verifierFault(
  command: string,
  exitCode: number | null,
): { code: 'verifier_missing' | 'verifier_error'; message: string } | null {
  if (exitCode === 126 || exitCode === 127) {
    const why = exitCode === 127 ? 'was not found' : 'cannot be executed';
    return { code: 'verifier_missing', message: `exit ${exitCode}: what it runs ${why}` };
  }
  if ((exitCode === 3 || exitCode === 4 || exitCode === 5) && exitsAsPytest(command)) {
    const why = { 3: 'an internal error', 4: 'a usage error', 5: 'that it collected no tests' }[exitCode];
    return { code: 'verifier_error', message: `exit ${exitCode}: pytest reports ${why}` };
  }
  return null;
}

/**
 * Runs the verify commands one after another as the task's user. A command that fails or does not end in time counts 0;
 * whose fault it is that the verifier did not work is for the caller to find out. Rejects with GradeError (infra) when the
 * sandbox is lost. `outcomes` grows while it runs, so that the caller has them whatever happens.
 */
export async function runCommands(
  sandbox: Sandbox,
  { commands, user = 'grader' }: Pick<Verify, 'commands' | 'user'>,
  env: Readonly<Record<string, string>>,
  limits: Limits,
  signal: AbortSignal,
  outcomes: VerifyOutcome[],
): Promise<VerifyRun> {
  const startedAt = performance.now();
  let cutShort = false;
  let timeouts = 0;
  const faults: CommandFault[] = [];
  for (const [index, command] of commands.entries()) {
    signal.throwIfAborted();
    const left = limits.grade_total_seconds * 1000 - (performance.now() - startedAt);
    if (left <= 0) {
      cutShort = true;
      timeouts += 1;
      const why = `not run: grade_total_seconds (${limits.grade_total_seconds}) was spent before it`;
      outcomes.push({ command, exit_code: null, stdout_tail: '', stderr_tail: why, seconds: 0 });
      continue;
    }
    const began = performance.now();
    const result: ExecResult = await sandbox.exec(['bash', '--noprofile', '--norc', '-c', command], {
      user,
      cwd: sandbox.workdir,
      env: { ...environment, ...env },
      timeout_ms: Math.ceil(Math.min(limits.grade_seconds * 1000, left)),
      max_output_bytes: keptBytes,
      signal,
    });
    signal.throwIfAborted();
    const exitCode = result.timed_out ? null : result.exit_code;
    outcomes.push({
      command,
      exit_code: exitCode,
      stdout_tail: result.stdout.slice(-tailChars),
      stderr_tail: result.stderr.slice(-tailChars),
      seconds: (performance.now() - began) / 1000,
    });
    if (result.timed_out) timeouts += 1;
    if (exitCode === null || exitCode === 137) {
      cutShort = true;
      if ((await sandbox.state()) === 'gone') throw sandboxGone(outcomes);
    }
    const fault = verifierFault(command, exitCode);
    if (fault !== null) {
      const said = (result.stderr || result.stdout).trim().slice(-500);
      const message = `verify.commands[${index}] ${fault.message}${said === '' ? '' : `: ${said}`}`;
      faults.push({ index, code: fault.code, message });
    }
  }
  return { outcomes, faults, cutShort, timeouts };
}
