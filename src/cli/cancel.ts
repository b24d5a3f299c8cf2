import { Command } from 'commander';
import { createControl } from '../queue/control/index.ts';
import { BadUse } from './bad-use.ts';
import { openQueue } from './context.ts';
import { settingsOf } from './options.ts';

interface CancelFlags extends Record<string, unknown> {
  readonly episode?: string;
  readonly group?: string;
  readonly json?: boolean;
}

export function cancelCommand(): Command {
  return new Command('cancel')
    .description(
      'cancel a run, a group or an episode: queued episodes get a null result, running ones are ended',
    )
    .argument('[run]', 'the run')
    .option('--episode <id>', 'only this episode')
    .option('--group <id>', 'only this group')
    .option('--json', 'one JSON object')
    .action(async (run: string | undefined, flags: CancelFlags) => {
      const targets = [
        ...(run === undefined ? [] : [['run', run] as const]),
        ...(flags.group === undefined ? [] : [['group', flags.group] as const]),
        ...(flags.episode === undefined ? [] : [['episode', flags.episode] as const]),
      ];
      const [target] = targets;
      if (target === undefined || targets.length > 1) {
        throw new BadUse('cancel takes one of: a run, --group ID, --episode ID');
      }
      const [kind, id] = target;
      await using context = await openQueue(settingsOf(flags), 'warn');
      const control = createControl(context.queue);
      const there = await {
        run: () => control.cancelRun(id),
        group: () => control.cancelGroup(id),
        episode: () => control.cancelEpisode(id),
      }[kind]();
      if (!there) throw new BadUse(`there is no ${kind} ${id} that could be cancelled`);
      process.stdout.write(
        flags.json === true
          ? `${JSON.stringify({ cancelled: { [kind]: id } })}\n`
          : `${kind} ${id} cancelled\n`,
      );
    });
}
