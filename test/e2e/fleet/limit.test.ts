import { expect, it } from 'vitest';
import type { CreationGate, CreationTicket } from '../../../src/contracts/index.ts';
import { connectFailFast, queueNames } from '../../../src/queue/index.ts';
import { createCreationGate, type SharedCreationGate } from '../../../src/queue/control/index.ts';
import { silentLogger } from '../../../src/observe/index.ts';
import { freshPrefix, testRedisUrl } from '../../support/redis.ts';
import { openFleetStage } from './stage.ts';

/** The gate of several workers, in turn, that counts what is let through. */
function counted(gates: readonly SharedCreationGate[]): CreationGate & { passed: number; refused: number } {
  let next = 0;
  const gate = {
    passed: 0,
    refused: 0,
    enter: async (signal: AbortSignal): Promise<CreationTicket> => {
      const ticket = await gates[next++ % gates.length]!.enter(signal);
      return {
        left: () => ticket.left(),
        passed: () => {
          gate.passed += 1;
          return ticket.passed();
        },
        refused: (ms) => {
          gate.refused += 1;
          return ticket.refused(ms);
        },
      };
    },
    freed: () => gates[next % gates.length]!.freed(),
  };
  return gate;
}

it('many episodes of several workers share few places: none fails, none waits out a pause, few are refused', async () => {
  const prefix = freshPrefix();
  const open = (): Promise<SharedCreationGate> =>
    createCreationGate({
      redisUrl: testRedisUrl(),
      prefix,
      provider: 'fleet',
      // Nobody would be done in time who waited one of these out.
      pace: { firstPauseMs: 20_000, longestPauseMs: 20_000, longestWaitMs: 100, pollMs: 20 },
    });
  await using first = await open();
  await using second = await open();
  const gate = counted([first, second]);
  await using stage = await openFleetStage({ gate, fleet: { instanceLimit: 2 } });
  const episodes = 10;
  const results = await Promise.all(Array.from({ length: episodes }, () => stage.run()));
  for (const { summary, exact } of results) {
    expect(summary).toMatchObject({ status: 'completed', reward: 1, failure: null });
    expect(summary.metrics).toMatchObject({ environment_create_tries: 1 });
    expect(exact).toBe(true);
  }
  expect(gate.passed).toBe(episodes);
  // Those that came before anybody knew of the limit, and one for each place that came free.
  expect(gate.refused).toBeLessThanOrEqual(2 * episodes);
  expect(stage.fleet.instances()).toEqual([]);
  // What is left of the gate ends by itself.
  await using redis = await connectFailFast({ redisUrl: testRedisUrl(), log: silentLogger });
  const key = queueNames(prefix).gate('fleet');
  expect(await redis.pttl(key)).not.toBe(-1);
}, 60_000);
