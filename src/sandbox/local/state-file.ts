import { readFile, rename, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { z } from 'zod';
import { labelsOf, leftoverOf, type LabelledSandbox } from '../leftovers.ts';

/** What a local sandbox leaves in its directory, so that anybody can end it after its worker died. */
export interface LocalState extends LabelledSandbox {
  /** `ROLLPOOL_SANDBOX` of its processes. */
  readonly mark: string;
  /** The user that is its alone; null when it runs as its worker's user. */
  readonly uid: number | null;
}

const stateSchema = z.object({
  labels: z.record(z.string(), z.string()),
  mark: z.string().min(8),
  uid: z.int().positive().nullable(),
});

const fileName = 'state.json';

export async function writeState(directory: string, state: LocalState): Promise<void> {
  const text = JSON.stringify({ labels: labelsOf(state), mark: state.mark, uid: state.uid });
  const next = join(directory, `${fileName}.next`);
  await writeFile(next, text, { mode: 0o600 });
  await rename(next, join(directory, fileName));
}

/** null when there is none, or none of ours. */
export async function readState(directory: string): Promise<LocalState | null> {
  try {
    const state = stateSchema.parse(JSON.parse(await readFile(join(directory, fileName), 'utf8')));
    const leftover = leftoverOf(state.labels);
    return leftover === null ? null : { ...leftover, mark: state.mark, uid: state.uid };
  } catch {
    return null;
  }
}
