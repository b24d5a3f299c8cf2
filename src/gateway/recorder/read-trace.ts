import { createReadStream } from 'node:fs';
import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { parseTraceName, pathPart } from './trace-path.ts';
import { TraceReading, type TraceSoFar } from './trace-reading.ts';

/** One attempt's trace. */
export interface Trace extends TraceSoFar {
  readonly path: string;
  readonly attempt: number;
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

/** Reads one file. */
export async function readTrace({ path, attempt }: TraceFile): Promise<Trace> {
  const reading = new TraceReading();
  for await (const text of createInterface({ input: createReadStream(path, 'utf8'), crlfDelay: Infinity })) {
    reading.add(text);
  }
  return { path, attempt, ...reading.soFar() };
}
