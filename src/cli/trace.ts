import { hostname } from 'node:os';
import { Command } from 'commander';
import { findTraces, readTrace, traceDirectory, type TraceFile } from '../gateway/index.ts';
import { BadUse, RunFailed } from './bad-use.ts';
import { settingsOf, wholeNumber } from './options.ts';
import { printable, printableJson } from './printable.ts';
import { listenForShutdown } from './shutdown.ts';
import { followEpisode } from './trace-follow.ts';
import { tracePage } from './trace-page.ts';

interface TraceFlags extends Record<string, unknown> {
  readonly attempt?: number;
  readonly json?: boolean;
  readonly follow?: boolean;
  readonly timeout?: number;
}

interface Place {
  readonly directory: string;
  /** Said where nothing is found. */
  readonly off: string;
}

function placeOf(flags: TraceFlags): Place {
  const { stateDir, trace } = settingsOf(flags);
  return { directory: traceDirectory(stateDir), off: trace === null ? ' ROLLPOOL_TRACE is off here.' : '' };
}

function noneIn({ directory }: Place, episode: string): string {
  return `there is no trace of ${printable(JSON.stringify(episode))} on this machine (${hostname()}, ${directory})`;
}

/** The files of one episode; none where there is none yet. Refuses what could be several. */
async function filesFor(
  episode: string,
  { directory }: Place,
  chosen: string | null = null,
): Promise<readonly TraceFile[]> {
  const found = await findTraces(directory, episode);
  const files = chosen === null ? found : found.filter((file) => file.episode === chosen);
  const ids = [...new Set(files.map((file) => file.episode))];
  if (ids.length > 1) {
    const some = ids.slice(0, 5).map(printable).join(', ');
    throw new BadUse(
      `${printable(episode)} is the beginning of ${ids.length} episodes: ${some}${ids.length > 5 ? ', ...' : ''}`,
    );
  }
  return files;
}

/** The files that are asked for. */
async function filesOf(episode: string, flags: TraceFlags): Promise<readonly TraceFile[]> {
  const place = placeOf(flags);
  const files = episode === '' ? [] : await filesFor(episode, place);
  if (files.length === 0) {
    throw new BadUse(
      `${noneIn(place, episode)}. An episode's traces are on the machines whose workers played it, until they are removed for age or size.${place.off}`,
    );
  }
  const { attempt } = flags;
  if (attempt === undefined) return files;
  const chosen = files.filter((file) => file.attempt === attempt);
  if (chosen.length > 0) return chosen;
  const there = files.map((file) => file.attempt).join(', ');
  throw new BadUse(`there is no trace of attempt ${attempt} on this machine; there is of attempt ${there}`);
}

/** Shows the newest attempt, or the one that is asked for, and goes on with what is added to it. */
async function follow(episode: string, flags: TraceFlags): Promise<void> {
  if (episode === '') throw new BadUse('an episode to follow has to be named');
  const { attempt, timeout, json = false } = flags;
  const place = placeOf(flags);
  /** By its files: the beginning of an id may be that of more episodes later. */
  let chosen: string | null = null;
  let waited = false;
  const find = async (): Promise<TraceFile | null> => {
    const files = await filesFor(episode, place, chosen);
    const wanted = attempt === undefined ? files : files.filter((file) => file.attempt === attempt);
    const newest = wanted.at(-1);
    if (newest !== undefined) chosen = newest.episode;
    else if (!waited)
      process.stderr.write(`rollpool: ${noneIn(place, episode)} yet: waiting for it.${place.off}\n`);
    waited = true;
    return newest ?? null;
  };
  using shutdown = listenForShutdown();
  const late = timeout === undefined ? null : AbortSignal.timeout(timeout * 1000);
  const signal = late === null ? shutdown.graceful : AbortSignal.any([shutdown.graceful, late]);
  const write = (text: string): void => void process.stdout.write(text);
  try {
    const ended = await followEpisode({ find, json, signal, write });
    if (!ended && !shutdown.graceful.aborted) {
      throw new RunFailed(`the episode had not ended after ${timeout} s: stopped following it`);
    }
  } catch (fault) {
    if ((fault as NodeJS.ErrnoException).code !== 'ENOENT') throw fault;
    throw new BadUse('the trace was removed, for its age or for space, while it was followed');
  }
}

export function traceCommand(): Command {
  return new Command('trace')
    .description("show an episode's model calls, from this machine's disk (docs/trace.md)")
    .argument('<episode>', 'its id, or the beginning of it')
    .option('--attempt <n>', 'only this attempt (default: all that are here)', wholeNumber(1))
    .option('--json', "one JSON object for each attempt; with --follow the trace's lines as they come")
    .option('--follow', 'show the newest attempt and go on until it ends; waits for one that has not begun')
    .option(
      '--timeout <seconds>',
      'with --follow: give up after so long (default: never)',
      wholeNumber(1, 2_000_000),
    )
    .action(async (episode: string, flags: TraceFlags) => {
      if (flags.follow === true) return follow(episode, flags);
      if (flags.timeout !== undefined) throw new BadUse('--timeout goes with --follow');
      for (const [index, file] of (await filesOf(episode, flags)).entries()) {
        const trace = await readTrace(file);
        if (flags.json === true) process.stdout.write(`${printableJson(trace)}\n`);
        else process.stdout.write(`${index === 0 ? '' : '\n'}${tracePage(trace, file)}`);
      }
    });
}
