import type { FleetTask } from '../../../src/contracts/index.ts';
import { verifierCall } from '../../../src/fleet/verifier/call.ts';
import type { EnvironmentDatabase } from '../../../src/local-fleet/environment/environment.ts';
import { runVerifier } from '../../../src/local-fleet/verifier/run-verifier.ts';
import type { VerifierOutcome } from '../../../src/local-fleet/verifier/verifier.ts';

/** Runs a task's verifier over an instance, with what the wire would carry. */
export async function score(
  task: FleetTask,
  database: EnvironmentDatabase,
  finalAnswer: string | null = null,
): Promise<VerifierOutcome> {
  const { bundle, body } = verifierCall({
    task,
    code: task.verifier_code ?? '',
    instance_id: 'i-1',
    final_answer: finalAnswer,
    conversation: [],
    timeout_seconds: 60,
  });
  return runVerifier({
    bundle,
    function_name: body.function_name,
    args: Buffer.from(body.args, 'base64'),
    seedPath: database.seedPath,
    currentPath: database.currentPath,
    env_variables: task.env_variables,
    timeout_seconds: 60,
    signal: new AbortController().signal,
  });
}
