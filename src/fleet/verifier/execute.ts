import { EpisodeError, type FleetTask } from '../../contracts/index.ts';
import { FleetApiError, type Execution, type FleetClient } from '../api/index.ts';
import type { VerifierAnswer, VerifierRequest } from '../environment.ts';
import { accessFailure, infraFailure, reasonOf, taskFailure } from '../fleet-failure.ts';
import { verifierCall, type VerifierCall } from './call.ts';
import type { KnownVerifiers } from './known-verifiers.ts';

export interface VerifierExecution {
  readonly client: FleetClient;
  readonly known: KnownVerifiers;
  readonly task: FleetTask;
  readonly instance_id: string;
  readonly request: VerifierRequest;
}

/** Milliseconds an execution may take beyond the verifier's own time: the service starts it first. */
const beyondMs = 60_000;
const lookMs = 30_000;

/**
 * One execution of a task's verifier: the bundle goes along only where the service does not have it. It is not repeated
 * when it fails; that is the grader's to decide. Rejects with EpisodeError (task: `verifier_unknown`,
 * `verifier_refused`, or what `verifierCall` finds wrong; infra: `verifier_unreachable`, `fleet_auth`).
 */
export async function executeVerifier(execution: VerifierExecution): Promise<VerifierAnswer> {
  const { known, task, instance_id, request } = execution;
  const call = verifierCall({
    task,
    code: await sourceOf(execution),
    instance_id,
    final_answer: request.final_answer,
    conversation: request.conversation,
    timeout_seconds: request.timeout_seconds,
  });
  if (known.bundles.get(call.sha256) === undefined && !(await isStored(execution, call.sha256))) {
    return answerOf(await execute(execution, call, true));
  }
  try {
    const answer = answerOf(await execute(execution, call, false));
    if (answer.success || !saysBundleMissing(answer.error?.message ?? '')) return answer;
  } catch (error) {
    if (!isBundleMissing(error)) throw error;
  }
  // The service has lost it since, or never had it.
  known.bundles.delete(call.sha256);
  return answerOf(await execute(execution, call, true));
}

/** The task's own source, else what the service has under its verifier id. */
async function sourceOf({ client, known, task, request }: VerifierExecution): Promise<string> {
  if (task.verifier_code !== null) return task.verifier_code;
  const id = task.verifier_id;
  if (id === null) {
    throw taskFailure('verifier_missing', 'the task has neither verifier_code nor verifier_id', {
      phase: 'grade',
    });
  }
  const before = known.sources.get(id);
  if (before !== undefined) return before;
  let code: string;
  try {
    ({ code } = await client.verifier(id, { signal: request.signal, timeout_ms: lookMs }));
  } catch (error) {
    if (error instanceof FleetApiError && error.kind === 'not_found') {
      throw taskFailure('verifier_unknown', `no verifier has the id ${id}: ${reasonOf(error)}`, {
        phase: 'grade',
        cause: error,
      });
    }
    throw verifierFailure(error, request.signal);
  }
  // What the service puts in place of a source that it could not read. Source: the vendor's SDK.
  if (code.startsWith('<error loading code:')) {
    throw infraFailure(
      'verifier_unreachable',
      `the service cannot read verifier ${id}: ${code.slice(0, 200)}`,
      {
        phase: 'grade',
      },
    );
  }
  known.sources.set(id, code);
  return code;
}

/** Whether the service says that it has the bundle; a question that fails only costs an upload. */
async function isStored({ client, known, request }: VerifierExecution, sha256: string): Promise<boolean> {
  try {
    const stored = await client.hasBundle(sha256, { signal: request.signal, timeout_ms: lookMs });
    if (stored) known.bundles.set(sha256, true);
    return stored;
  } catch {
    request.signal.throwIfAborted();
    return false;
  }
}

async function execute(
  { client, known, request }: VerifierExecution,
  call: VerifierCall,
  withBundle: boolean,
): Promise<Execution> {
  const body = withBundle
    ? { ...call.body, bundle: Buffer.from(call.bundle).toString('base64') }
    : { ...call.body };
  try {
    const answer = await client.executeVerifier(body, {
      signal: request.signal,
      timeout_ms: call.body.timeout * 1000 + beyondMs,
    });
    if (withBundle) known.bundles.set(call.sha256, true);
    return answer;
  } catch (error) {
    throw verifierFailure(error, request.signal);
  }
}

function saysBundleMissing(words: string): boolean {
  return /\b(bundle|verifier) not found\b/i.test(words);
}

/** Of a call without the bundle, whatever was not found is first taken for the bundle. Source: the vendor's SDK. */
function isBundleMissing(error: unknown): boolean {
  const cause = error instanceof EpisodeError ? error.cause : error;
  return cause instanceof FleetApiError && (cause.kind === 'not_found' || /not found/i.test(cause.words));
}

function verifierFailure(error: unknown, signal: AbortSignal): unknown {
  if (signal.aborted) return signal.reason;
  if (!(error instanceof FleetApiError)) return error;
  if (error.isAccess) return accessFailure(error, 'grade');
  const message = `the verifier was not executed: ${reasonOf(error)}`;
  // What the service will not take whatever the environment: a broken bundle, a runtime that it does not have.
  const isRefused =
    error.kind === 'bad_request' && !error.transient && !/instance|environment/i.test(error.words);
  if (isRefused) return taskFailure('verifier_refused', message, { phase: 'grade', cause: error });
  return infraFailure('verifier_unreachable', message, { phase: 'grade', cause: error });
}

function textOf(value: unknown): string {
  return typeof value === 'string'
    ? value
    : value === undefined || value === null
      ? ''
      : JSON.stringify(value);
}

function answerOf(execution: Execution): VerifierAnswer {
  const { success, result, error, stdout, execution_time_ms } = execution;
  const told = typeof error === 'object' && error !== null ? (error as Record<string, unknown>) : null;
  return {
    success,
    result: result ?? null,
    error:
      error === undefined || error === null
        ? null
        : {
            type: textOf(told?.['type']),
            message: told === null ? textOf(error) : textOf(told['message']),
            traceback: textOf(told?.['traceback']),
          },
    stdout: stdout ?? '',
    execution_ms: execution_time_ms ?? null,
  };
}
