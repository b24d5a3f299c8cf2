import { Command, Option } from 'commander';
import { addTasks, describeAdded, planTasks, withTaskFlags, type TaskFlags } from './add-tasks.ts';
import { openQueue } from './context.ts';
import { settingsOf, withSettings } from './options.ts';
import { listenForShutdown } from './shutdown.ts';
import { printFaults } from './tasks-file.ts';

interface EnqueueFlags extends TaskFlags {
  readonly dryRun?: boolean;
}

export function enqueueCommand(): Command {
  return withSettings(withTaskFlags(new Command('enqueue')), 'logLevel')
    .description('add the episodes of a tasks file to the queue')
    .argument('<tasks>', 'JSON array, {"tasks": [...]} or JSON lines; or a Harbor task or a folder of them')
    .addOption(
      new Option('--sandbox <provider>', 'where Claude Code tasks run')
        .choices(['docker', 'e2b', 'local'])
        .default('docker'),
    )
    .option('--dry-run', 'only say what the file holds')
    .action(async (file: string, flags: EnqueueFlags) => {
      const settings = settingsOf(flags);
      if (flags.dryRun === true) {
        const plan = await planTasks(file, flags);
        process.stdout.write(
          flags.json === true
            ? `${JSON.stringify(plan)}\n`
            : `${plan.report.loaded} good tasks, ${plan.report.loaded * flags.samples} episodes: ${lanesText(plan.lanes)}\n`,
        );
        return;
      }
      using shutdown = listenForShutdown();
      await using context = await openQueue(settings, 'error');
      const added = await addTasks(context.queue, file, flags, shutdown.graceful);
      printFaults(added.report, process.stderr);
      for (const lane of added.batch.unservedLanes) {
        process.stderr.write(`warning: no living worker serves the lane ${lane}\n`);
      }
      process.stdout.write(
        flags.json === true
          ? `${JSON.stringify({ run_id: added.run_id, created: added.run.created, report: added.report, batch: added.batch })}\n`
          : `${describeAdded(added)}\n`,
      );
    });
}

function lanesText(lanes: Readonly<Record<string, number>>): string {
  return Object.entries(lanes)
    .map(([lane, episodes]) => `${lane} ${episodes}`)
    .join(', ');
}
