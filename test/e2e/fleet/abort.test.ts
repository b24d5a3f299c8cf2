import { afterAll, beforeAll, expect, it } from 'vitest';
import type { FaultInput } from '../../../src/local-fleet/index.ts';
import { cancelled, openFleetStage, type FleetStage } from './stage.ts';

let stage: FleetStage;
beforeAll(async () => {
  stage = await openFleetStage();
});
afterAll(async () => {
  await stage?.[Symbol.asyncDispose]();
});

const faults: readonly (readonly FaultInput[])[] = [
  [],
  [{ kind: 'create_lost' }],
  [{ kind: 'create_limit', times: 3 }],
  [{ kind: 'bad_gateway', times: 3 }],
  [{ kind: 'tool_hang', tool: 'send_message' }],
  [{ kind: 'execution_failure', times: 'always' }],
  [{ kind: 'delete_error', times: 2 }],
];

/** Moments spread over an episode, other ones in each run of the test. */
const moments = Array.from({ length: 4 }, (_, quarter) => (quarter + Math.random()) * 110);

it.each(faults.map((added) => [added[0]?.kind ?? 'no fault', added] as const))(
  'an attempt that is ended at any moment leaves nothing, and rejects with why: %s',
  async (_kind, added) => {
    for (const ms of moments) {
      for (const fault of added) stage.fleet.faults.add(fault);
      const controller = new AbortController();
      const cause = cancelled();
      const timer = setTimeout(() => controller.abort(cause), ms);
      const ended = await stage.run({ signal: controller.signal }).catch((error: unknown) => error);
      clearTimeout(timer);
      stage.fleet.faults.clear();
      const when = `ended after ${ms} ms`;
      // Else it was faster.
      if (ended instanceof Error) expect(ended, when).toBe(cause);
      expect(stage.fleet.instances(), when).toEqual([]);
    }
  },
  60_000,
);
