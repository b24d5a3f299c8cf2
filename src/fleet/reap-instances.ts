import PQueue from 'p-queue';
import { reapVerdict, type Leftover, type ReapFilter, type ReapReport } from '../contracts/index.ts';
import { FleetApiError, type FleetClient, type Instance } from './api/index.ts';
import { accessFailure, infraFailure, reasonOf } from './fleet-failure.ts';
import { leftoverOf } from './instance-owner.ts';

const listMs = 60_000;

/** Instances that live or are about to, as the service knows them. */
async function living(client: FleetClient): Promise<readonly Instance[]> {
  try {
    const lists = await Promise.all(
      (['running', 'pending'] as const).map(async (status) =>
        client.instances({ status }, { timeout_ms: listMs }),
      ),
    );
    // One that became running between the two answers is in both.
    return [...new Map(lists.flat().map((instance) => [instance.instance_id, instance])).values()];
  } catch (error) {
    if (!(error instanceof FleetApiError)) throw error;
    if (error.isAccess) throw accessFailure(error, 'boot');
    throw infraFailure('fleet_unreachable', `cannot list instances: ${reasonOf(error)}`, {
      phase: 'boot',
      cause: error,
    });
  }
}

/**
 * Removes the instances of ours that may go, known by their run ids alone. What other users of the same key made is never
 * touched. An instance that cannot be removed is kept in the report; a list that cannot be had rejects.
 */
export async function reapInstances(
  client: FleetClient,
  filter: ReapFilter,
  removeMs: number,
): Promise<ReapReport> {
  const removed: string[] = [];
  const kept: { id: string; why: string }[] = [];
  const judged = (await living(client)).flatMap((instance): { id: string; leftover: Leftover }[] => {
    const leftover = leftoverOf(instance);
    return leftover === null ? [] : [{ id: instance.instance_id, leftover }];
  });
  const queue = new PQueue({ concurrency: 4 });
  await queue.addAll(
    judged.map(({ id, leftover }) => async () => {
      const verdict = reapVerdict(leftover, filter, Date.now(), false);
      if (verdict === 'not_asked') return;
      if (!verdict.remove) {
        kept.push({ id, why: verdict.why });
        return;
      }
      try {
        await client.deleteInstance(id, { timeout_ms: removeMs });
        removed.push(id);
      } catch (error) {
        kept.push({ id, why: `it could not be removed: ${reasonOf(error)}` });
      }
    }),
  );
  return { removed, kept };
}
