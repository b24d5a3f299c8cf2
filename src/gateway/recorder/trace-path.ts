import { createHash } from 'node:crypto';
import { join } from 'node:path';

/** Bytes of a name that every file system takes, with room for an ending. */
const nameLimit = 180;

/** A name as part of a path: nothing that would lead out of its directory, and never too long. */
export function pathPart(name: string): string {
  const safe = encodeURIComponent(name.replace(/\p{Cs}/gu, '\ufffd')).replace(/^\./, '%2E') || '%';
  if (safe.length <= nameLimit) return safe;
  return `${safe.slice(0, nameLimit - 17)}~${createHash('sha256').update(name).digest('hex').slice(0, 16)}`;
}

/** Where traces stand under the state directory. */
export function traceDirectory(stateDirectory: string): string {
  return join(stateDirectory, 'trace');
}

/** Where an attempt's trace stands. */
export function tracePath(directory: string, run: string | null, episode: string, attempt: number): string {
  return join(directory, run === null ? 'no-run' : pathPart(run), `${pathPart(episode)}-${attempt}.jsonl`);
}

/** Episode (as `pathPart` wrote it) and attempt out of a trace's file name; null when it is no trace's. */
export function parseTraceName(name: string): { readonly episode: string; readonly attempt: number } | null {
  const match = /^(.+)-(\d+)\.jsonl$/.exec(name);
  return match === null ? null : { episode: match[1]!, attempt: Number(match[2]) };
}
