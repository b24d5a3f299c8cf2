import { Command } from 'commander';
import { fleetProviderOf, sandboxProviderOf } from '../../workers/lanes.ts';
import { reapOnce } from '../../workers/reaper.ts';
import type { Reaper } from '../contracts/index.ts';
import { openQueue } from './context.ts';
import { settingsOf, withSettings } from './options.ts';

interface ReapFlags extends Record<string, unknown> {
  readonly all?: boolean;
  readonly runId?: string;
  readonly json?: boolean;
}

export function reapCommand(): Command {
  return withSettings(new Command('reap'), 'logLevel')
    .description(
      'remove what dead workers of this pool left: sandboxes, sockets and directories here, sandboxes of E2B, environments of the Fleet service',
    )
    .option('--run-id <id>', 'only those of this run')
    .option('--all', "also those of living workers: ends this pool's running episodes")
    .option('--json', 'one JSON object')
    .action(async (flags: ReapFlags) => {
      const settings = settingsOf(flags);
      await using context = await openQueue(settings, 'warn');
      const providers = [
        sandboxProviderOf(settings, 'local', context.log),
        sandboxProviderOf(settings, 'docker', context.log),
        settings.e2b.apiKey === null ? null : sandboxProviderOf(settings, 'e2b', context.log),
        fleetProviderOf(settings, context.log),
      ].filter((provider) => provider !== null);
      const skipped: string[] = [];
      try {
        const usable: Reaper[] = [];
        for (const provider of providers) {
          try {
            await provider.probe();
            usable.push(provider);
          } catch (error) {
            const why = error instanceof Error ? error.message : String(error);
            skipped.push(`${provider.name} was not looked at: ${why}`);
          }
        }
        const report = await reapOnce({
          pool: settings.redis.prefix,
          providers: usable,
          queue: context.queue,
          all: flags.all === true,
          ...(flags.runId === undefined ? {} : { run_id: flags.runId }),
        });
        if (flags.json === true) {
          process.stdout.write(`${JSON.stringify({ ...report, skipped })}\n`);
          return;
        }
        for (const reason of skipped) process.stderr.write(`${reason}\n`);
        for (const id of report.removed) process.stdout.write(`removed ${id}\n`);
        for (const { id, why } of report.kept) process.stdout.write(`kept ${id}: ${why}\n`);
        process.stdout.write(`${report.removed.length} removed, ${report.kept.length} kept\n`);
      } finally {
        for (const provider of providers) await provider[Symbol.asyncDispose]();
      }
    });
}
