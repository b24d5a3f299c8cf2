#!/usr/bin/env node
import { Command, CommanderError } from 'commander';
import { BadUse, exitCodes } from './bad-use.ts';
import { cancelCommand } from './cancel.ts';
import { doctorCommand } from './doctor.ts';
import { enqueueCommand } from './enqueue.ts';
import { feederCommand } from './feeder.ts';
import { policyCommand } from './policy.ts';
import { reapCommand } from './reap.ts';
import { resultsCommand } from './results.ts';
import { runCommand } from './run.ts';
import { statusCommand } from './status.ts';
import { workerCommand } from './worker.ts';

const program = new Command('rollpool')
  .description('Turns training tasks into rewards and token-exact rollouts, on as many machines as you have.')
  .version('0.1.0')
  .showHelpAfterError('(rollpool --help shows every command)')
  .exitOverride();

for (const command of [
  runCommand(),
  enqueueCommand(),
  workerCommand(),
  feederCommand(),
  resultsCommand(),
  statusCommand(),
  cancelCommand(),
  policyCommand(),
  reapCommand(),
  doctorCommand(),
]) {
  program.addCommand(
    command.exitOverride().showHelpAfterError(`(rollpool ${command.name()} --help shows its flags)`),
  );
}

/** Errors whose message is meant for the user, by name: a class may come from another copy of its module. */
function isForTheUser(error: unknown): error is Error {
  if (!(error instanceof Error)) return false;
  if (error instanceof BadUse) return true;
  return [
    'ClaudeCliError',
    'EmbeddedRedisError',
    'EpisodeError',
    'NoLaneError',
    'NoPolicyError',
    'PolicyStartError',
    'PolicyUnusableError',
    'RedisUnreachableError',
    'RunConflictError',
    'ScriptFileError',
    'SettingsError',
    'TasksFileError',
    'UntrainablePolicyError',
  ].includes(error.name);
}

async function main(): Promise<number> {
  try {
    await program.parseAsync();
    return typeof process.exitCode === 'number' ? process.exitCode : exitCodes.done;
  } catch (error) {
    if (error instanceof CommanderError) return error.exitCode === 0 ? exitCodes.done : exitCodes.badUse;
    if (isForTheUser(error)) {
      process.stderr.write(`rollpool: ${error.message}\n`);
      return exitCodes.badUse;
    }
    process.stderr.write(
      `rollpool: ${error instanceof Error ? (error.stack ?? error.message) : String(error)}\n`,
    );
    return exitCodes.someFailed;
  }
}

// A reader that closes our pipe (head, less) ends us quietly, as it ends every other program.
process.stdout.on('error', (error: NodeJS.ErrnoException) => {
  if (error.code === 'EPIPE') process.exit(exitCodes.done);
  throw error;
});

process.exitCode = await main();
