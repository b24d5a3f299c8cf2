import { createHash } from 'node:crypto';
import { Sandbox as E2bApi } from 'e2b';
import type { Owner } from '../../contracts/index.ts';
import type { KeptSnapshot } from '../sandbox.ts';
import { sdkOptions, type E2bConnection } from './connection.ts';

const callMs = 30_000;
const prefix = 'rollpool-kept';

function poolMark(pool: string): string {
  return createHash('sha256').update(pool).digest('hex').slice(0, 12);
}

/** E2B keeps nothing of a snapshot but its name, so that its pool, episode, attempt and time stand in there. */
export function snapshotName(owner: Owner, now: number): string {
  const episode = owner.episode_id.toLowerCase().replace(/[^a-z0-9]/g, '');
  return [prefix, poolMark(owner.pool), episode, owner.attempt, now].join('-');
}

/**
 * The snapshots whose name says that they are of this pool. Run, worker and nonce are not in it: they are empty. Names are
 * the ids that E2B gave, which is what a sandbox is made from.
 */
export async function listSnapshots(connection: E2bConnection, pool: string): Promise<KeptSnapshot[]> {
  const pages = E2bApi.listSnapshots({ ...sdkOptions(connection), requestTimeoutMs: callMs, limit: 100 });
  const pattern = new RegExp(`(?:^|/)${prefix}-${poolMark(pool)}-([a-z0-9]*)-(\\d+)-(\\d+)(?::|$)`);
  const kept: KeptSnapshot[] = [];
  while (pages.hasNext) {
    for (const { snapshotId, names } of await pages.nextItems()) {
      const found = names.map((name) => pattern.exec(name)).find((match) => match !== null);
      if (found === undefined || found === null) continue;
      const [, episode_id = '', attempt, created] = found;
      kept.push({
        name: snapshotId,
        owner: { pool, worker: '', run_id: '', episode_id, attempt: Number(attempt), nonce: '' },
        created_at: Number(created),
      });
    }
  }
  return kept.sort((one, other) => other.created_at - one.created_at);
}

export async function removeSnapshot(connection: E2bConnection, name: string): Promise<void> {
  await E2bApi.deleteSnapshot(name, { ...sdkOptions(connection), requestTimeoutMs: callMs });
}
