import { hostname } from 'node:os';
import { Command } from 'commander';
import { findTraces, readTrace, traceDirectory, type TraceFile } from '../gateway/index.ts';
import { BadUse } from './bad-use.ts';
import { settingsOf, wholeNumber } from './options.ts';
import { printable, printableJson } from './printable.ts';
import { tracePage } from './trace-page.ts';

interface TraceFlags extends Record<string, unknown> {
  readonly attempt?: number;
  readonly json?: boolean;
}

function refuseNone(episode: string, directory: string, traced: boolean): never {
  const off = traced ? '' : ' ROLLPOOL_TRACE is off here.';
  throw new BadUse(
    `there is no trace of ${printable(JSON.stringify(episode))} on this machine (${hostname()}, ${directory}). An episode's traces are on the machines whose workers played it, until they are removed for age or size.${off}`,
  );
}

/** The files of one episode. */
async function filesOf(episode: string, flags: TraceFlags): Promise<readonly TraceFile[]> {
  const { stateDir, trace } = settingsOf(flags);
  const directory = traceDirectory(stateDir);
  const files = await findTraces(directory, episode);
  if (files.length === 0 || episode === '') refuseNone(episode, directory, trace !== null);
  const ids = [...new Set(files.map((file) => file.episode))];
  if (ids.length > 1) {
    const some = ids.slice(0, 5).map(printable).join(', ');
    throw new BadUse(
      `${printable(episode)} is the beginning of ${ids.length} episodes: ${some}${ids.length > 5 ? ', ...' : ''}`,
    );
  }
  const { attempt } = flags;
  if (attempt === undefined) return files;
  const chosen = files.filter((file) => file.attempt === attempt);
  if (chosen.length > 0) return chosen;
  const there = files.map((file) => file.attempt).join(', ');
  throw new BadUse(`there is no trace of attempt ${attempt} on this machine; there is of attempt ${there}`);
}

export function traceCommand(): Command {
  return new Command('trace')
    .description("show an episode's model calls, from this machine's disk (docs/trace.md)")
    .argument('<episode>', 'its id, or the beginning of it')
    .option('--attempt <n>', 'only this attempt (default: all that are here)', wholeNumber(1))
    .option('--json', 'one JSON object for each attempt')
    .action(async (episode: string, flags: TraceFlags) => {
      for (const [index, file] of (await filesOf(episode, flags)).entries()) {
        const trace = await readTrace(file);
        if (flags.json === true) process.stdout.write(`${printableJson(trace)}\n`);
        else process.stdout.write(`${index === 0 ? '' : '\n'}${tracePage(trace, file)}`);
      }
    });
}
