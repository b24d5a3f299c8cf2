import { Command } from 'commander';
import type { ResultSummary } from '../contracts/index.ts';
import { createConsumer } from '../queue/consumer/index.ts';
import { BadUse } from './bad-use.ts';
import { collectResults, writeAll } from './collect-results.ts';
import { openQueue } from './context.ts';
import { settingsOf } from './options.ts';
import { prepareOut, resultLine } from './result-file.ts';
import { printFailures, printResultTable } from './result-table.ts';
import { listenForShutdown } from './shutdown.ts';

interface ResultsFlags extends Record<string, unknown> {
  readonly follow?: boolean;
  readonly out?: string;
  readonly json?: boolean;
}

export function resultsCommand(): Command {
  return new Command('results')
    .description('show or export the results of a run (the newest one when none is named)')
    .argument('[run]', 'the run')
    .option('--follow', 'wait for further results until the run is done')
    .option('--out <dir>', 'write results.jsonl there, sequences included')
    .option('--json', 'print every result as one JSON line, sequences included')
    .action(async (named: string | undefined, flags: ResultsFlags) => {
      using shutdown = listenForShutdown();
      await using context = await openQueue(settingsOf(flags), 'warn');
      const { queue, options } = context;
      const run_id = named ?? (await queue.listRuns())[0]?.run_id;
      if (run_id === undefined) throw new BadUse('there are no runs yet');
      if ((await queue.runStatus(run_id)) === null) throw new BadUse(`there is no run ${run_id}`);

      let results: ResultSummary[] = [];
      if (flags.out !== undefined) {
        const path = await prepareOut(flags.out);
        if (flags.follow === true) {
          results = await collectResults({ queue, options, run_id, path, signal: shutdown.graceful });
        } else {
          await using consumer = await createConsumer(options);
          results = await writeAll(consumer, run_id, path);
        }
        process.stderr.write(`results: ${path}\n`);
      } else {
        await using consumer = await createConsumer(options);
        const source =
          flags.follow === true
            ? consumer.followResults({
                run_id,
                signal: shutdown.graceful,
                endWhen: async () => (await queue.runStatus(run_id))?.done === true,
              })
            : consumer.listResults(run_id);
        for await (const { summary, payload } of source) {
          results.push(summary);
          if (flags.json === true) {
            const bytes = payload === null ? null : await consumer.fetchPayload(payload);
            process.stdout.write(resultLine(summary, bytes));
          } else if (flags.follow === true) {
            process.stdout.write(
              `${summary.task_key} ${summary.sample_index} ${summary.status} ${summary.stop_reason} reward ${summary.reward}\n`,
            );
          }
        }
      }
      if (flags.json === true) return;
      printResultTable(results, process.stdout);
      printFailures(results, process.stderr);
    });
}
