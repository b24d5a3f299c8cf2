import { availableParallelism } from 'node:os';
import { Command } from 'commander';
import { startWorker } from '../../workers/worker.ts';
import { supervise } from '../../workers/supervisor.ts';
import { createLogger } from '../observe/index.ts';
import { exitCodes } from './bad-use.ts';
import { openQueue } from './context.ts';
import { runName, settingsOf, wholeNumber, withSettings } from './options.ts';
import { aborted, listenForShutdown } from './shutdown.ts';

interface WorkerFlags extends Record<string, unknown> {
  readonly processes: number;
  readonly cliStarts?: number;
  readonly runId?: string;
  readonly allowUntrainable?: boolean;
}

export function workerCommand(): Command {
  return withSettings(
    new Command('worker'),
    'lanes',
    'concurrency',
    'policyUrl',
    'model',
    'image',
    'logLevel',
  )
    .description(
      'run episodes until told to stop (SIGTERM hands running episodes off; a second one ends at once)',
    )
    .option('--processes <n>', 'worker processes, each with its own --concurrency', wholeNumber(1), 1)
    .option(
      '--cli-starts <n>',
      'agent CLIs that may be starting at once in a process (default: cores / processes)',
      wholeNumber(1),
    )
    .option('--run-id <id>', 'only episodes of this run; those of others are left to other workers', runName)
    .option('--allow-local', 'serve claude_code-local as well, which does not isolate')
    .option('--allow-untrainable', 'run a policy that returns no ids or logprobs')
    .action(async (flags: WorkerFlags) => {
      const settings = settingsOf(flags);
      using shutdown = listenForShutdown();
      if (flags.processes > 1) {
        process.exitCode = await supervise({
          processes: flags.processes,
          arguments: [
            ...process.argv.slice(2),
            ...['--processes', '1', '--cli-starts', String(cliStartsOf(flags))],
          ],
          env: process.env,
          log: createLogger({ level: settings.logLevel }),
          shutdown,
        });
        return;
      }
      // A parent that started us and is gone will not tell us to stop any more.
      const orphaned = (): void => {
        if (!shutdown.graceful.aborted) shutdown.request();
      };
      process.on('disconnect', orphaned);
      if (process.channel === null) orphaned();
      shutdown.forced.addEventListener('abort', () => process.exit(exitCodes.someFailed));
      let started = false;
      try {
        await using context = await openQueue(settings);
        const worker = await startWorker({
          settings,
          queue: context.options,
          log: context.log,
          cliStarts: cliStartsOf(flags),
          ...(flags.runId === undefined ? {} : { onlyRun: flags.runId }),
          allowUntrainable: flags.allowUntrainable === true,
          signal: shutdown.graceful,
        });
        started = true;
        if (process.connected) process.send?.({ ready: worker.id });
        await aborted(shutdown.graceful);
        context.log.info({ worker: worker.id }, 'handing off');
        await worker.close({ mode: 'handoff' });
      } catch (error) {
        // Told to stop while it started: whatever that broke off is no fault, and nothing has to be handed off.
        if (started || !shutdown.graceful.aborted) throw error;
      } finally {
        // Without a listener the channel to the parent keeps nobody alive.
        process.off('disconnect', orphaned);
      }
    });
}

/** Starts burn a core each, so that those of all processes together are gated to the cores. */
export function cliStartsOf(flags: Pick<WorkerFlags, 'processes' | 'cliStarts'>): number {
  return flags.cliStarts ?? Math.max(1, Math.floor(availableParallelism() / flags.processes));
}
