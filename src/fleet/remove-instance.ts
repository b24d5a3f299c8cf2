import type { Logger } from '../observe/index.ts';
import type { FleetClient } from './api/index.ts';
import { reasonOf } from './fleet-failure.ts';
import type { LostCreations } from './lost-creations.ts';
import type { FleetTimings } from './timings.ts';

/** What everything of a provider works with. */
export interface FleetParts {
  readonly client: FleetClient;
  readonly lost: LostCreations;
  readonly log: Logger;
  readonly timings: FleetTimings;
}

/**
 * Deletes an instance, with retries that no signal cuts short: an aborted episode must not leave it running. Never
 * rejects: what could not be deleted is swept again later, and ends by its time to live or by the reaper.
 */
export async function removeInstance(parts: FleetParts, id: string, runId: string): Promise<void> {
  try {
    await parts.client.deleteInstance(id, { timeout_ms: parts.timings.remove });
  } catch (error) {
    parts.log.warn({ instance: id, fleet_run: runId, why: reasonOf(error) }, 'left an instance behind');
    parts.lost.sweepLater(runId);
  }
}
