import { readdir, rmdir, stat, unlink } from 'node:fs/promises';
import { join } from 'node:path';
import { parseTraceName } from './trace-path.ts';

/** What a small file takes on most disks. */
const block = 4096;

interface Kept {
  readonly path: string;
  readonly bytes: number;
  readonly changedAt: number;
}

const nothing = (): null => null;

async function tracesIn(directory: string): Promise<Kept[]> {
  const names = (await readdir(directory).catch(nothing)) ?? [];
  const found: Kept[] = [];
  for (const name of names) {
    if (parseTraceName(name) === null) continue;
    const path = join(directory, name);
    const about = await stat(path).catch(nothing);
    if (about?.isFile() !== true) continue;
    found.push({ path, bytes: Math.ceil(about.size / block) * block, changedAt: about.mtimeMs });
  }
  return found;
}

/**
 * Removes traces that were not written to for `maxAgeMs`, then the oldest until what is left takes at most `limitBytes`.
 * Several processes may sweep one directory at once. What is no trace stays.
 */
export async function sweepTraces(
  directory: string,
  bounds: { readonly limitBytes: number; readonly maxAgeMs: number },
  now = Date.now(),
): Promise<void> {
  const runs = (await readdir(directory, { withFileTypes: true }).catch(nothing)) ?? [];
  const kept: Kept[] = [];
  for (const run of runs) if (run.isDirectory()) kept.push(...(await tracesIn(join(directory, run.name))));
  kept.sort((a, b) => a.changedAt - b.changedAt);
  let bytes = kept.reduce((sum, each) => sum + each.bytes, 0);
  for (const trace of kept) {
    if (bytes <= bounds.limitBytes && now - trace.changedAt <= bounds.maxAgeMs) break;
    await unlink(trace.path).catch(nothing);
    bytes -= trace.bytes;
  }
  // Only empty ones go.
  for (const run of runs) if (run.isDirectory()) await rmdir(join(directory, run.name)).catch(nothing);
}
