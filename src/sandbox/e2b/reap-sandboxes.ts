import { reapVerdict, type ReapFilter, type ReapReport } from '../../contracts/index.ts';
import { crashPoint } from '../../observe/index.ts';
import { labelsOf, leftoverOf } from '../leftovers.ts';
import { reasonOf } from '../sandbox-failure.ts';
import type { E2bConnection } from './connection.ts';
import { graceMs } from './lifetime.ts';
import { listSandboxes } from './list-sandboxes.ts';
import { removeSandbox } from './remove-sandbox.ts';

const removeMs = 30_000;

/** The one label that every sandbox of ours has, whoever it belongs to. */
const [anyLabel] = Object.entries(
  labelsOf({
    owner: { pool: '', worker: '', run_id: '', episode_id: '', attempt: 0, nonce: '' },
    expires_at: 0,
  }),
);

/** Removes the sandboxes of ours that may go, known by their metadata alone. One that will not go does not keep the others. */
export async function reapSandboxes(connection: E2bConnection, filter: ReapFilter): Promise<ReapReport> {
  const removed: string[] = [];
  const kept: { id: string; why: string }[] = [];
  for (const { sandboxId, metadata, endAt } of await listSandboxes(
    connection,
    Object.fromEntries([anyLabel!]),
  )) {
    const leftover = leftoverOf(metadata);
    if (leftover === null) continue;
    const now = Date.now();
    const verdict = reapVerdict(leftover, filter, now, endAt.getTime() - graceMs > now);
    if (verdict === 'not_asked') continue;
    if (!verdict.remove) {
      kept.push({ id: sandboxId, why: verdict.why });
      continue;
    }
    try {
      crashPoint('sandbox.delete:before');
      await removeSandbox(connection, sandboxId, removeMs);
      crashPoint('sandbox.delete:after');
      removed.push(sandboxId);
    } catch (error) {
      kept.push({ id: sandboxId, why: reasonOf(error) });
    }
  }
  return { removed, kept };
}
