import { followTrace, type TraceFile, type TraceLine, type TraceStep } from '../gateway/index.ts';
import { printable, printableJson } from './printable.ts';
import { beginLine, callLines, endLines, headLines, refusedLines, traceBegan } from './trace-page.ts';

/** A call that ends in the same piece of the file as it began needs no line for its beginning. */
function endedIn(lines: readonly TraceLine[]): ReadonlySet<number> {
  return new Set(lines.flatMap((line) => (line.type === 'call' ? [line.call] : [])));
}

/** What a step adds to the page, for people. `shown`: calls that have their block already. */
function stepLines(
  { file, reading, lines, abandoned }: TraceStep,
  isFirst: boolean,
  shown: Set<number>,
): string[] {
  const trace = reading.soFar();
  const since = traceBegan(trace);
  const said: string[] = isFirst ? headLines(trace, file) : [];
  if (abandoned) {
    said.push(`no end: its worker (pid ${trace.episode?.pid ?? 'unknown'}) is not there any more`);
    said.push('waiting for another attempt');
  }
  const ended = endedIn(lines);
  for (const line of lines) {
    if (line.type === 'begin' && !ended.has(line.call)) said.push('', beginLine(line, since));
    else if (line.type === 'call') {
      const call = reading.call(line.call);
      if (call !== null) said.push('', ...callLines(call, since));
      shown.add(line.call);
    } else if (line.type === 'fate' && shown.has(line.call) && !ended.has(line.call)) {
      said.push(printable(`call ${line.call}  ${line.fate}`));
    } else if (line.type === 'refused') said.push(...refusedLines(line, since));
    else if (line.type === 'joined') {
      said.push(printable(`request ${line.request_id} asks again for what ${line.begun_by} asked`));
    }
  }
  if (trace.end !== null) said.push('', ...endLines(trace, since));
  return said;
}

/**
 * Writes an episode's calls as they begin and end, until the episode ends or the signal aborts; true when it ended.
 * `json`: the lines of the file themselves.
 */
export async function followEpisode(options: {
  readonly find: () => Promise<TraceFile | null>;
  readonly json: boolean;
  readonly signal: AbortSignal;
  readonly write: (text: string) => void;
  readonly pollMs?: number;
}): Promise<boolean> {
  const { find, json, signal, write, pollMs } = options;
  let path: string | null = null;
  let shown = new Set<number>();
  for await (const step of followTrace({ find, signal, ...(pollMs === undefined ? {} : { pollMs }) })) {
    const isFirst = step.file.path !== path;
    if (json) {
      for (const line of step.lines) write(`${printableJson(line)}\n`);
    } else {
      if (isFirst) shown = new Set();
      if (isFirst && path !== null) write('\n');
      const lines = stepLines(step, isFirst, shown);
      if (lines.length > 0) write(`${lines.join('\n')}\n`);
    }
    path = step.file.path;
    if (step.reading.soFar().end !== null) return true;
  }
  return false;
}
