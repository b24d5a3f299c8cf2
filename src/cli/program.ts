import { Command, CommanderError } from 'commander';
import { SettingsError } from '../config/index.ts';
import { BadUse, exitCodes, RunFailed } from './bad-use.ts';
import { cancelCommand } from './cancel.ts';
import { doctorCommand } from './doctor.ts';
import { enqueueCommand } from './enqueue.ts';
import { feederCommand } from './feeder.ts';
import { localFleetCommand } from './local-fleet.ts';
import { policyCommand } from './policy.ts';
import { reapCommand } from './reap.ts';
import { regradeCommand } from './regrade.ts';
import { resultsCommand } from './results.ts';
import { runCommand } from './run.ts';
import { Interrupted } from './shutdown.ts';
import { statusCommand } from './status.ts';
import { templateCommand } from './template.ts';
import { traceCommand } from './trace.ts';
import { workerCommand } from './worker.ts';

const afterHelp = `
Start with rollpool doctor, then rollpool run TASKS. Every setting has an environment variable (docs/configuration.md);
flags go over them. Exit codes: 0 done, 1 some episodes failed, 2 bad use.`;

/** Commander's complaint and its hint, on one line like every other. */
function complainAs(command: Command, help: string): Command {
  return command.exitOverride().configureOutput({
    outputError: (text, write) => {
      const line = text
        .replace(/^error: /, '')
        .trim()
        .replaceAll(/\s*\n\s*/g, ' ');
      write(`rollpool: ${line}${/[.)]$/.test(line) ? '' : '.'} See ${help}\n`);
    },
  });
}

function createProgram(): Command {
  const program = new Command('rollpool')
    .description(
      'Turns training tasks into rewards and token-exact rollouts, on as many machines as you have.',
    )
    .version('0.1.0')
    .addHelpText('after', afterHelp);
  complainAs(program, 'rollpool --help');
  for (const command of [
    runCommand(),
    enqueueCommand(),
    workerCommand(),
    feederCommand(),
    resultsCommand(),
    statusCommand(),
    cancelCommand(),
    traceCommand(),
    policyCommand(),
    localFleetCommand(),
    regradeCommand(),
    reapCommand(),
    templateCommand(),
    doctorCommand(),
  ]) {
    const help = `rollpool ${command.name()}`;
    for (const part of command.commands) complainAs(part, `${help} ${part.name()} --help`);
    program.addCommand(complainAs(command, `${help} --help`));
  }
  return program;
}

/** Errors whose message is meant for the user, by name: a class may come from another copy of its module. */
const forTheUser = new Set([
  BadUse.name,
  'ClaudeCliError',
  'EmbeddedRedisError',
  'EnvironmentFolderError',
  'EpisodeError',
  'LocalFleetStartError',
  'NoLaneError',
  'NoPolicyError',
  'PolicyStartError',
  'PolicyUnusableError',
  'RedisUnreachableError',
  'RunConflictError',
  'ScriptFileError',
  'TasksFileError',
  'UntrainablePolicyError',
]);

/** What to print for an error, and the exit code. A stack only where the fault is ours. */
function explain(error: unknown): { text: string; code: number } {
  if (!(error instanceof Error)) return { text: String(error), code: exitCodes.someFailed };
  if (error instanceof SettingsError && error.faults.length === 1) {
    const [only] = error.faults;
    return { text: `${only?.variable}: ${only?.problem}`, code: exitCodes.badUse };
  }
  if (error instanceof SettingsError || forTheUser.has(error.name)) {
    return { text: error.message, code: exitCodes.badUse };
  }
  if (error instanceof RunFailed || error instanceof Interrupted)
    return { text: error.message, code: exitCodes.someFailed };
  return { text: error.stack ?? error.message, code: exitCodes.someFailed };
}

/** Runs one command line, without the program's own name; gives the exit code and says on stderr what went wrong. */
export async function runProgram(args: readonly string[]): Promise<number> {
  try {
    await createProgram().parseAsync(args, { from: 'user' });
    return typeof process.exitCode === 'number' ? process.exitCode : exitCodes.done;
  } catch (error) {
    if (error instanceof CommanderError) return error.exitCode === 0 ? exitCodes.done : exitCodes.badUse;
    const { text, code } = explain(error);
    process.stderr.write(`rollpool: ${text}\n`);
    return code;
  }
}
