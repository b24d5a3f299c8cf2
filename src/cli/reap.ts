import { Command } from 'commander';
import { fleetProviderOf, sandboxProviderOf } from '../../workers/lanes.ts';
import { reapOnce } from '../../workers/reaper.ts';
import type { Reaper } from '../contracts/index.ts';
import type { SandboxProvider } from '../sandbox/sandbox.ts';
import { openQueue } from './context.ts';
import { settingsOf, withSettings } from './options.ts';

interface ReapFlags extends Record<string, unknown> {
  readonly all?: boolean;
  readonly kept?: boolean;
  readonly runId?: string;
  readonly json?: boolean;
}

/** Who removes leftovers, and kept final states where it has any. */
type Looker = Reaper & Partial<Pick<SandboxProvider, 'listSnapshots' | 'removeSnapshot'>>;

export function reapCommand(): Command {
  return withSettings(new Command('reap'), 'logLevel')
    .description(
      'remove what dead workers of this pool left: sandboxes, sockets and directories here, sandboxes of E2B, environments of the Fleet service',
    )
    .option('--run-id <id>', 'only those of this run')
    .option('--all', "also those of living workers: ends this pool's running episodes")
    .option('--kept', 'also the final states that were kept for `regrade`')
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
        const usable: Looker[] = [];
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
        const states = flags.kept === true ? await dropKept(usable, settings.redis.prefix, flags.runId) : [];
        const removed = [...report.removed, ...states];
        if (flags.json === true) {
          process.stdout.write(`${JSON.stringify({ ...report, removed, skipped })}\n`);
          return;
        }
        for (const reason of skipped) process.stderr.write(`${reason}\n`);
        for (const id of removed) process.stdout.write(`removed ${id}\n`);
        for (const { id, why } of report.kept) process.stdout.write(`kept ${id}: ${why}\n`);
        process.stdout.write(`${removed.length} removed, ${report.kept.length} kept\n`);
      } finally {
        for (const provider of providers) await provider[Symbol.asyncDispose]();
      }
    });
}

/** Removes kept final states of a pool, or of one run; gives what was removed. */
async function dropKept(
  providers: readonly Looker[],
  pool: string,
  run_id: string | undefined,
): Promise<string[]> {
  const removed: string[] = [];
  for (const provider of providers) {
    for (const { name, owner } of (await provider.listSnapshots?.(pool)) ?? []) {
      if (run_id !== undefined && owner.run_id !== run_id) continue;
      await provider.removeSnapshot?.(name);
      removed.push(`${provider.name} ${name}`);
    }
  }
  return removed;
}
