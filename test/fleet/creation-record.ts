import type { CreationGate } from '../../src/contracts/index.ts';
import { fleetTaskSchema, type FleetTask } from '../../src/contracts/index.ts';
import type { EnvironmentRequest } from '../../src/fleet/environment.ts';
import type { FleetTimings } from '../../src/fleet/timings.ts';

/** A gate of one process that writes down what it hears; a refusal holds the next creation back. */
export function recordingGate(pauseMs = 20): { gate: CreationGate; events: string[] } {
  const events: string[] = [];
  let pause = 0;
  const gate: CreationGate = {
    enter: async (signal) => {
      signal.throwIfAborted();
      await new Promise<void>((resolve, reject) => {
        const timer = setTimeout(resolve, pause);
        signal.addEventListener('abort', () => {
          clearTimeout(timer);
          reject(signal.reason as Error);
        });
      });
      events.push('enter');
      const end = (event: string) => async (): Promise<void> => void events.push(event);
      return {
        passed: end('passed'),
        left: end('left'),
        refused: async (ms) => {
          pause = pauseMs;
          events.push(`refused ${ms}`);
        },
      };
    },
  };
  return { gate, events };
}

/** Pauses short enough for tests. */
export const quick: Partial<FleetTimings> = {
  createPauses: [5, 5, 5, 5],
  createGrace: 5_000,
  pendingPoll: 10,
  sweep: 5_000,
  sweepAgain: [200, 400],
  stateFresh: 0,
  remove: 5_000,
};

let attempts = 0;

export function environmentRequest(
  task: Partial<FleetTask> = {},
  request: Partial<EnvironmentRequest> = {},
): EnvironmentRequest {
  attempts += 1;
  return {
    task: fleetTaskSchema.parse({
      kind: 'fleet',
      task_key: 't',
      prompt: 'p',
      env_key: 'bike-workshop',
      ...task,
    }),
    owner: {
      pool: '{pool}',
      worker: 'host-1-abc',
      run_id: 'run-1',
      episode_id: 'e1',
      attempt: 1,
      nonce: `n${attempts}`,
    },
    boot_seconds: 30,
    wait_seconds: 30,
    ttl_seconds: 600,
    signal: new AbortController().signal,
    ...request,
  };
}
