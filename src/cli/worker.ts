import { once } from 'node:events';
import { Command } from 'commander';
import { startWorker } from '../../workers/worker.ts';
import { supervise } from '../../workers/supervisor.ts';
import { openQueue } from './context.ts';
import { settingsOf, wholeNumber, withSettings } from './options.ts';
import { listenForShutdown } from './shutdown.ts';

interface WorkerFlags extends Record<string, unknown> {
  readonly processes: number;
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
    .option('--processes <n>', 'worker processes on this machine', wholeNumber(1), 1)
    .option('--allow-local', 'serve claude_code-local as well, which does not isolate')
    .option('--allow-untrainable', 'run a policy that returns no ids or logprobs')
    .action(async (flags: WorkerFlags) => {
      const settings = settingsOf(flags);
      using shutdown = listenForShutdown();
      if (flags.processes > 1) {
        process.exitCode = await supervise({
          processes: flags.processes,
          arguments: process.argv.slice(2),
          shutdown,
        });
        return;
      }
      await using context = await openQueue(settings);
      const worker = await startWorker({
        settings,
        queue: context.options,
        log: context.log,
        allowUntrainable: flags.allowUntrainable === true,
        signal: shutdown.graceful,
      });
      // A parent that started us and is gone will not tell us to stop any more.
      process.on('disconnect', () => shutdown.request());
      process.send?.({ ready: worker.id });
      if (!shutdown.graceful.aborted) await once(shutdown.graceful, 'abort');
      shutdown.forced.addEventListener('abort', () => process.exit(1));
      context.log.info({ worker: worker.id }, 'handing off');
      await worker.close({ mode: 'handoff' });
      if (process.connected) process.disconnect();
    });
}
