import { Command, Option } from 'commander';
import { planProduce, produce, type SandboxProvider } from '../../producer/index.ts';
import { openQueue } from './context.ts';
import { integer, settingsOf, wholeNumber, withSettings } from './options.ts';
import { defaultRunId, printFaults } from './tasks-file.ts';

interface EnqueueFlags extends Record<string, unknown> {
  readonly samples: number;
  readonly limit?: number;
  readonly runId?: string;
  readonly batch: string;
  readonly sandbox: SandboxProvider;
  readonly priority: number;
  readonly strict?: boolean;
  readonly dryRun?: boolean;
  readonly retryFailed?: boolean;
  readonly json?: boolean;
}

/** Flags that say what of a tasks file becomes episodes: the same for `enqueue` and `run`. */
export function withTaskFlags(command: Command): Command {
  return command
    .option('--samples <n>', 'episodes of each task (its group)', wholeNumber(1), 1)
    .option('--limit <n>', 'only the first N good tasks', wholeNumber(1))
    .option('--run-id <id>', 'name of the run (default: from the file and the samples)')
    .option('--batch <id>', 'name of the batch within the run', '0')
    .option('--priority <n>', 'higher is sooner', integer, 0)
    .option('--strict', 'refuse the file when any task has a fault')
    .option('--retry-failed', 'run failed and cancelled episodes again, as a new generation')
    .option('--json', 'one JSON object instead of text');
}

export function enqueueCommand(): Command {
  return withSettings(withTaskFlags(new Command('enqueue')), 'logLevel')
    .description('add the episodes of a tasks file to the queue')
    .argument('<tasks>', 'JSON array, {"tasks": [...]} or JSON lines')
    .addOption(
      new Option('--sandbox <provider>', 'where Claude Code tasks run')
        .choices(['docker', 'e2b', 'local'])
        .default('docker'),
    )
    .option('--dry-run', 'only say what the file holds')
    .action(async (file: string, flags: EnqueueFlags) => {
      const settings = settingsOf(flags);
      const reading = {
        ...(flags.limit === undefined ? {} : { limit: flags.limit }),
        ...(flags.strict === undefined ? {} : { strict: flags.strict }),
      };
      const complain = (line: string): void => void process.stderr.write(`${line}\n`);
      if (flags.dryRun === true) {
        const plan = await planProduce(file, { ...reading, samples: flags.samples, sandbox: flags.sandbox });
        printFaults(plan.report, complain);
        process.stdout.write(
          flags.json === true
            ? `${JSON.stringify(plan)}\n`
            : `${plan.report.loaded} good tasks, ${plan.report.loaded * flags.samples} episodes: ${lanesText(plan.lanes)}\n`,
        );
        return;
      }
      const run_id = flags.runId ?? (await defaultRunId(file, flags.samples, flags.sandbox));
      await using context = await openQueue(settings, 'warn');
      const { report, run, batch } = await produce(context.queue, file, {
        ...reading,
        run_id,
        batch_id: flags.batch,
        samples: flags.samples,
        sandbox: flags.sandbox,
        priority: flags.priority,
        retryFailed: flags.retryFailed === true,
      });
      printFaults(report, complain);
      for (const lane of batch.unservedLanes) complain(`warning: no living worker serves the lane ${lane}`);
      process.stdout.write(
        flags.json === true
          ? `${JSON.stringify({ run_id, created: run.created, report, batch })}\n`
          : `run ${run_id}: ${batch.added} episodes added, ${batch.known} were there` +
              `${batch.retried > 0 ? `, ${batch.retried} again` : ''}\n`,
      );
    });
}

function lanesText(lanes: Readonly<Record<string, number>>): string {
  return Object.entries(lanes)
    .map(([lane, episodes]) => `${lane} ${episodes}`)
    .join(', ');
}
