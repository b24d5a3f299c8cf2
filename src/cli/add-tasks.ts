import type { Command } from 'commander';
import {
  planProduce,
  produce,
  type Produced,
  type ProducePlan,
  type SandboxProvider,
} from '../../producer/index.ts';
import { RunConflictError, type RolloutQueue } from '../queue/index.ts';
import { BadUse } from './bad-use.ts';
import { integer, runName, wholeNumber } from './options.ts';
import { defaultRunId, printFaults } from './tasks-file.ts';

/** Flags that say what of a tasks file becomes episodes: the same for `enqueue` and `run`. */
export interface TaskFlags extends Record<string, unknown> {
  readonly samples: number;
  readonly limit?: number;
  readonly runId?: string;
  readonly batch: string;
  readonly sandbox: SandboxProvider;
  readonly priority: number;
  readonly strict?: boolean;
  readonly retryFailed?: boolean;
  readonly json?: boolean;
}

export function withTaskFlags(command: Command): Command {
  return command
    .option('--samples <n>', 'episodes of each task (its group)', wholeNumber(1), 1)
    .option('--limit <n>', 'only the first N good tasks', wholeNumber(1))
    .option('--run-id <id>', 'name of the run (default: from the file, the samples and the sandbox)', runName)
    .option('--batch <id>', 'name of the batch within the run', runName, '0')
    .option('--priority <n>', 'higher is sooner', integer, 0)
    .option('--strict', 'refuse the file when any task has a fault')
    .option('--retry-failed', 'run failed and cancelled episodes again, as a new generation')
    .option('--json', 'one JSON object instead of text');
}

function reading(flags: TaskFlags) {
  return {
    samples: flags.samples,
    sandbox: flags.sandbox,
    ...(flags.limit === undefined ? {} : { limit: flags.limit }),
    ...(flags.strict === undefined ? {} : { strict: flags.strict }),
  };
}

/** What the file would add; says on stderr what is wrong with single tasks. */
export async function planTasks(file: string, flags: TaskFlags): Promise<ProducePlan> {
  const plan = await planProduce(file, reading(flags));
  printFaults(plan.report, process.stderr);
  return plan;
}

/** The run that the flags mean. */
export async function runIdOf(file: string, flags: TaskFlags): Promise<string> {
  return flags.runId ?? defaultRunId(file, flags.samples, flags.sandbox);
}

/** Adds the episodes of a file to their run; the same command again adds nothing. */
export async function addTasks(
  queue: RolloutQueue,
  file: string,
  flags: TaskFlags,
  signal: AbortSignal,
): Promise<Produced & { readonly run_id: string }> {
  const run_id = await runIdOf(file, flags);
  try {
    const produced = await produce(queue, file, {
      ...reading(flags),
      run_id,
      batch_id: flags.batch,
      priority: flags.priority,
      extra: { sandbox: flags.sandbox },
      retryFailed: flags.retryFailed === true,
      // Who wants cancelled episodes to run again wants their run to be open again.
      reopen: flags.retryFailed === true,
      signal,
    });
    return { ...produced, run_id };
  } catch (error) {
    if (error instanceof RunConflictError && error.code === 'run_closed') {
      throw new BadUse(`run ${run_id} was cancelled or closed: --retry-failed opens it again`, {
        cause: error,
      });
    }
    throw error;
  }
}

/** One line on what was added. */
export function describeAdded({
  run_id,
  batch,
}: Pick<Produced, 'batch'> & { readonly run_id: string }): string {
  return (
    `run ${run_id}: ${batch.added} episodes added, ${batch.known} were there` +
    (batch.retried > 0 ? `, ${batch.retried} again` : '')
  );
}
