import type { FaultSwitch, Occasion } from '../faults/fault-switch.ts';
import { readBody, type Exchange } from '../http/exchange.ts';
import { Refusal } from '../http/refusal.ts';
import type { Handler } from '../http/router.ts';
import type { Instance } from '../instances/instance.ts';
import type { Instances } from '../instances/instances.ts';
import type { VerifierOutcome } from '../../verifier/verifier.ts';
import type { Bundle, Bundles } from './bundles.ts';
import { executionRequestSchema, instanceIdOf, type ExecutionRequest } from './execution-request.ts';
import { failedOutcome, type Executions } from './executions.ts';

/** `POST /v1/verifiers/execute` without a `timeout`: seconds. */
const defaultTimeout = 60;

function bundleOf(request: ExecutionRequest, bundles: Bundles): { bundle: Bundle; hit: boolean } {
  const { key = null } = request;
  const sha256 = request.sha256?.toLowerCase();
  if (!request.bundle) {
    if (sha256 === undefined) throw new Refusal(400, 'Either bundle or sha256 must be given');
    const bundle = bundles.find(sha256);
    if (bundle === undefined) throw new Refusal(404, `Bundle not found for sha256 ${sha256}`);
    return { bundle, hit: true };
  }
  const bundle = bundles.add(Buffer.from(request.bundle, 'base64'), key);
  if (sha256 !== undefined && bundle.sha256 !== sha256) {
    throw new Refusal(400, `sha256 is ${sha256}, but the bundle's is ${bundle.sha256}`);
  }
  return { bundle, hit: false };
}

/** What a fault says instead of the verifier. */
function faultyOutcome(faults: FaultSwitch, occasion: Occasion): VerifierOutcome | null {
  const status = faults.take('execute_error', occasion)?.status;
  if (status !== undefined) throw new Refusal(status, 'Internal Server Error');
  const failure = faults.take('execution_failure', occasion);
  if (failure !== undefined) return failedOutcome(failure.type, failure.message);
  const judge = faults.take('judge_error', occasion);
  const base = { success: true, error: null, execution_time_ms: 1 };
  if (judge !== undefined) return { ...base, result: judge.score, stdout: `JUDGE ERROR: ${judge.message}\n` };
  const result = faults.take('verifier_result', occasion);
  return result === undefined ? null : { ...base, result: result.result ?? null, stdout: '' };
}

/** The bundles of verifiers and their execution. */
export function verifierRoutes(
  instances: Instances,
  bundles: Bundles,
  executions: Executions,
  faults: FaultSwitch,
): Readonly<Record<string, Handler>> {
  const outcomeOf = async (
    exchange: Exchange,
    request: ExecutionRequest,
    bundle: Bundle,
    instance: Instance | undefined,
  ): Promise<VerifierOutcome> => {
    const occasion = instance === undefined ? {} : { instance: instance.id, run_id: instance.plan.run_id };
    const faulty = faultyOutcome(faults, occasion);
    if (faulty !== null) return faulty;
    const database = instance?.database ?? null;
    if (instance === undefined || database === null) {
      const status = instance === undefined ? 'unknown' : instance.status;
      return failedOutcome(
        'InstanceNotRunning',
        `Instance '${instanceIdOf(request)}' is not running (status: ${status})`,
      );
    }
    return executions.run(
      {
        bundle: bundle.bytes,
        function_name: request.function_name ?? 'verify',
        args: Buffer.from(request.args ?? '', 'base64'),
        seedPath: database.seedPath,
        currentPath: database.currentPath,
        env_variables: instance.plan.variables,
        timeout_seconds: request.timeout ?? defaultTimeout,
      },
      exchange.response,
      instance,
    );
  };

  return {
    'GET /v1/verifiers/check': ({ query }) => {
      const sha256 = query.get('sha256');
      if (!sha256) throw new Refusal(400, 'sha256 must be given');
      const bundle = bundles.find(sha256);
      const { key = null, created_at = null } = bundle ?? {};
      const version = bundle === undefined ? null : 1;
      return { success: bundle !== undefined, key, version, display_src: null, created_at, comment: null };
    },

    'POST /v1/verifiers/execute': async (exchange) => {
      const request = await readBody(exchange, executionRequestSchema);
      const instance = instances.find(instanceIdOf(request));
      const { bundle, hit } = bundleOf(request, bundles);
      const outcome = await outcomeOf(exchange, request, bundle, instance);
      return {
        ...outcome,
        execution_time_ms: Math.round(outcome.execution_time_ms),
        execution_id: executions.newId(),
        verifier_id: bundle.verifier_id,
        bundle_cache_hit: hit,
        key: request.key ?? bundle.key,
        version: 1,
        display_src: null,
        created_at: bundle.created_at,
        comment: null,
      };
    },
  };
}
