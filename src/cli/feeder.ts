import { Command } from 'commander';
import { startFeeder, startReconciler } from '../queue/index.ts';
import { exitCodes } from './bad-use.ts';
import { openQueue } from './context.ts';
import { settingsOf, withSettings } from './options.ts';
import { aborted, listenForShutdown } from './shutdown.ts';

export function feederCommand(): Command {
  return withSettings(new Command('feeder'), 'logLevel')
    .description('fill groups from the results queue (every worker does; any number is safe)')
    .action(async (flags: Record<string, unknown>) => {
      using shutdown = listenForShutdown();
      shutdown.forced.addEventListener('abort', () => process.exit(exitCodes.someFailed));
      await using context = await openQueue(settingsOf(flags));
      await using _feeder = await startFeeder(context.options);
      await using _reconciler = await startReconciler(context.options);
      context.log.info('feeder ready');
      await aborted(shutdown.graceful);
    });
}
