import { Command } from 'commander';
import { sandboxProviderOf } from '../../workers/lanes.ts';
import type { SandboxProvider } from '../sandbox/sandbox.ts';
import { reapOnce } from '../../workers/reaper.ts';
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
      'remove sandboxes, sockets and directories that dead workers of this pool left on this machine',
    )
    .option('--run-id <id>', 'only those of this run')
    .option('--all', "also those of living workers: ends this pool's running episodes on this machine")
    .option('--json', 'one JSON object')
    .action(async (flags: ReapFlags) => {
      const settings = settingsOf(flags);
      await using context = await openQueue(settings, 'warn');
      const providers: SandboxProvider[] = [];
      const skipped: string[] = [];
      try {
        for (const name of ['docker', 'local'] as const) {
          const provider = sandboxProviderOf(settings, name, context.log);
          providers.push(provider);
        }
        const [docker, local] = providers;
        const usable = local === undefined ? [] : [local];
        try {
          await docker?.probe();
          if (docker !== undefined) usable.push(docker);
        } catch (error) {
          skipped.push(error instanceof Error ? error.message : String(error));
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
        for (const reason of skipped) process.stderr.write(`docker was not looked at: ${reason}\n`);
        for (const id of report.removed) process.stdout.write(`removed ${id}\n`);
        for (const { id, why } of report.kept) process.stdout.write(`kept ${id}: ${why}\n`);
        process.stdout.write(`${report.removed.length} removed, ${report.kept.length} kept\n`);
      } finally {
        for (const provider of providers) await provider[Symbol.asyncDispose]();
      }
    });
}
