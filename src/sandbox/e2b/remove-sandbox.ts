import { Sandbox as E2bApi } from 'e2b';
import { infraFailure, reasonOf } from '../sandbox-failure.ts';
import { sdkOptions, type E2bConnection } from './connection.ts';
import { isNotFound, keyRefused, statusOf } from './e2b-failure.ts';

const callMs = 20_000;

/** Whether the service still knows a sandbox. Rejects when it does not say. */
export async function exists(connection: E2bConnection, id: string): Promise<boolean> {
  try {
    await E2bApi.getInfo(id, { ...sdkOptions(connection), requestTimeoutMs: callMs });
    return true;
  } catch (error) {
    if (isNotFound(error)) return false;
    throw error;
  }
}

/**
 * Kills a sandbox and makes sure of it; one that is not there is fine. Rejects (infra) when the service did not do it within
 * `timeoutMs`: it is left to the reaper then, and to its own time.
 */
export async function removeSandbox(connection: E2bConnection, id: string, timeoutMs: number): Promise<void> {
  const deadline = performance.now() + timeoutMs;
  let why: unknown = new Error('it is still there');
  for (let pause = 100; ; pause = Math.min(pause * 2, 5_000)) {
    try {
      const killed = await E2bApi.kill(id, { ...sdkOptions(connection), requestTimeoutMs: callMs });
      if (!killed || !(await exists(connection, id))) return;
    } catch (error) {
      if (statusOf(error) === 401) throw keyRefused(error, 'publish');
      why = error;
    }
    if (performance.now() + pause > deadline) {
      throw infraFailure('remove_failed', `the E2B sandbox ${id} could not be killed: ${reasonOf(why)}`, {
        phase: 'publish',
        cause: why,
      });
    }
    await new Promise((resolve) => setTimeout(resolve, pause));
  }
}
