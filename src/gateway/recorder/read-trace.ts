import { createReadStream } from 'node:fs';
import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import type { BeginLine, CallLine, EndLine, EpisodeLine, TraceLine } from './trace-line.ts';
import { parseTraceName, pathPart } from './trace-path.ts';

/** A call as its lines tell it. */
export interface TracedCall {
  readonly begin: BeginLine | null;
  /** With what became of it; null: it was in flight when the worker ended, or still is. */
  readonly call: CallLine | null;
}

/** One attempt's trace. */
export interface Trace {
  readonly path: string;
  readonly attempt: number;
  readonly episode: EpisodeLine | null;
  /** In order of arrival. */
  readonly calls: readonly TracedCall[];
  /** null: the worker ended before the episode did, or it still runs. */
  readonly end: EndLine | null;
  /** Its share of the disk was used up before its end. */
  readonly cut: boolean;
  /** Lines that cannot be read: cut short by a full disk or a crash. */
  readonly damaged: number;
}

/** A trace's file. */
export interface TraceFile {
  readonly path: string;
  readonly run: string;
  readonly episode: string;
  readonly attempt: number;
}

/** Files of an episode, by its id or the beginning of it; by attempt. Empty when there is none on this machine. */
export async function findTraces(directory: string, episode: string): Promise<readonly TraceFile[]> {
  const wanted = pathPart(episode);
  const found: TraceFile[] = [];
  for (const run of await readdir(directory, { withFileTypes: true }).catch(() => [])) {
    if (!run.isDirectory()) continue;
    for (const name of await readdir(join(directory, run.name)).catch(() => [])) {
      const parsed = parseTraceName(name);
      if (parsed === null || !parsed.episode.startsWith(wanted)) continue;
      found.push({ path: join(directory, run.name, name), run: run.name, ...parsed });
    }
  }
  const exact = found.filter((file) => file.episode === wanted);
  return (exact.length > 0 ? exact : found).sort(
    (a, b) => a.episode.localeCompare(b.episode) || a.attempt - b.attempt,
  );
}

function parsed(line: string): TraceLine | null {
  try {
    const value: unknown = JSON.parse(line);
    return typeof value === 'object' && value !== null && 'type' in value ? (value as TraceLine) : null;
  } catch {
    return null;
  }
}

/** Reads one file; lines of kinds that this code does not know are passed over. */
export async function readTrace({ path, attempt }: TraceFile): Promise<Trace> {
  const calls = new Map<number, { begin: BeginLine | null; call: CallLine | null }>();
  const of = (index: number): { begin: BeginLine | null; call: CallLine | null } => {
    let call = calls.get(index);
    if (call === undefined) calls.set(index, (call = { begin: null, call: null }));
    return call;
  };
  let episode: EpisodeLine | null = null;
  let end: EndLine | null = null;
  let cut = false;
  let damaged = 0;
  for await (const text of createInterface({ input: createReadStream(path, 'utf8'), crlfDelay: Infinity })) {
    if (text === '') continue;
    const line = parsed(text);
    if (line === null) damaged++;
    else if (line.type === 'episode') episode = line;
    else if (line.type === 'begin') of(line.call).begin = line;
    else if (line.type === 'call') of(line.call).call = line;
    else if (line.type === 'end') end = line;
    else if (line.type === 'cut') cut = true;
    else if (line.type === 'fate') {
      const known = of(line.call);
      if (known.call !== null) known.call = { ...known.call, fate: line.fate };
    }
  }
  const ordered = [...calls].sort(([a], [b]) => a - b).map(([, call]) => call);
  return { path, attempt, episode, calls: ordered, end, cut, damaged };
}
