import { describe, expect, it } from 'vitest';
import { fleetTaskSchema, type FleetTask } from '../../../src/contracts/index.ts';
import { FleetClient } from '../../../src/fleet/api/index.ts';
import type { VerifierAnswer, VerifierRequest } from '../../../src/fleet/environment.ts';
import { executeVerifier } from '../../../src/fleet/verifier/execute.ts';
import { KnownVerifiers } from '../../../src/fleet/verifier/known-verifiers.ts';
import { shippedEnvironments, startLocalFleet } from '../../../src/local-fleet/index.ts';
import { scriptedServer, type Reply, type ScriptedServer, type SeenRequest } from '../api/scripted-server.ts';
import { failureOf } from '../../support/failure-of.ts';

const code = 'def validate_task(env, final_answer=None):\n    return 1 if final_answer == "yes" else 0\n';
const taskWith = (fields: Partial<FleetTask> = {}): FleetTask =>
  fleetTaskSchema.parse({
    kind: 'fleet',
    task_key: 'task-1',
    prompt: 'p',
    env_key: 'bike-workshop',
    verifier_code: code,
    ...fields,
  });
const graded: VerifierRequest = {
  final_answer: 'yes',
  conversation: [],
  timeout_seconds: 30,
  signal: new AbortController().signal,
};
const done: Reply = { json: { success: true, result: 1, stdout: 'ok', execution_time_ms: 12 } };

/** One process that grades: its client, and what it knows of verifiers. */
function graderOf(server: Pick<ScriptedServer, 'url'>, task = taskWith()) {
  const client = new FleetClient({
    baseUrl: server.url,
    apiKey: 'sk_test',
    retry: { base_ms: 5, longest_ms: 10 },
  });
  const known = new KnownVerifiers();
  return {
    verify: async (request: Partial<VerifierRequest> = {}): Promise<VerifierAnswer> =>
      executeVerifier({ client, known, task, instance_id: 'i-1', request: { ...graded, ...request } }),
    [Symbol.asyncDispose]: async () => client[Symbol.asyncDispose](),
  };
}

/** A service that keeps bundles: executions without one that it lacks are refused as it refuses them. */
function service(stored = new Set<string>()): (request: SeenRequest) => Reply {
  return ({ url, body }) => {
    if (url.startsWith('/v1/verifiers/check'))
      return { json: { success: stored.has(new URLSearchParams(url.split('?')[1]).get('sha256') ?? '') } };
    if (body.bundle !== undefined) stored.add(body.sha256);
    return stored.has(body.sha256) ? done : { status: 404, json: { detail: 'Bundle not found' } };
  };
}

const executions = (server: ScriptedServer): SeenRequest[] =>
  server.seen.filter(({ url }) => url === '/v1/verifiers/execute');

describe('executing a verifier', () => {
  it('uploads its bundle once a process, and then costs a single call', async () => {
    await using server = await scriptedServer(service());
    await using grader = graderOf(server);
    expect(await grader.verify()).toEqual({
      success: true,
      result: 1,
      error: null,
      stdout: 'ok',
      execution_ms: 12,
    });
    await grader.verify();
    await grader.verify();
    expect(server.calls()).toEqual([
      'GET /v1/verifiers/check',
      'POST /v1/verifiers/execute',
      'POST /v1/verifiers/execute',
      'POST /v1/verifiers/execute',
    ]);
    const [first, second] = executions(server).map(({ body }) => body);
    expect(first).toMatchObject({
      key: 'task-1',
      function_name: 'validate_task',
      timeout: 30,
      args_array: [{ env: 'i-1' }],
    });
    expect(Buffer.from(first.bundle, 'base64').subarray(0, 2).toString()).toBe('PK');
    expect(second).not.toHaveProperty('bundle');
    expect(second.sha256).toBe(first.sha256);
  });

  it('does not upload what the service has', async () => {
    const stored = new Set<string>();
    await using server = await scriptedServer(service(stored));
    {
      await using grader = graderOf(server);
      await grader.verify();
    }
    await using another = graderOf(server);
    await another.verify();
    expect(executions(server).map(({ body }) => 'bundle' in body)).toEqual([true, false]);
  });

  it('uploads it again when the service has lost it', async () => {
    const stored = new Set<string>();
    await using server = await scriptedServer(service(stored));
    await using grader = graderOf(server);
    await grader.verify();
    stored.clear();
    expect((await grader.verify()).success).toBe(true);
    expect(executions(server).map(({ body }) => 'bundle' in body)).toEqual([true, false, true]);
  });

  it('uploads it when the check itself fails', async () => {
    await using server = await scriptedServer((request) =>
      request.url.startsWith('/v1/verifiers/check') ? { status: 500, json: {} } : done,
    );
    await using grader = graderOf(server);
    await grader.verify();
    expect(executions(server)[0]!.body).toHaveProperty('bundle');
  });

  it('takes the source of a verifier id from the service, once', async () => {
    await using server = await scriptedServer((request) =>
      request.url === '/v1/verifiers/v-1' ? { json: { key: 'k', code } } : service()(request),
    );
    await using grader = graderOf(server, taskWith({ verifier_code: null, verifier_id: 'v-1' }));
    await grader.verify();
    await grader.verify();
    expect(server.calls().filter((call) => call === 'GET /v1/verifiers/v-1')).toHaveLength(1);
  });

  it('blames the task for an id that nobody knows, and for a source without a function', async () => {
    await using server = await scriptedServer(() => ({
      status: 404,
      json: { detail: 'Verifier not found' },
    }));
    await using unknown = graderOf(server, taskWith({ verifier_code: null, verifier_id: 'v-9' }));
    expect(await failureOf(unknown.verify())).toMatchObject({
      class: 'task',
      phase: 'grade',
      code: 'verifier_unknown',
    });
    await using broken = graderOf(server, taskWith({ verifier_code: 'x = 1' }));
    expect(await failureOf(broken.verify())).toMatchObject({ class: 'task', phase: 'grade' });
    expect(executions(server)).toEqual([]);
  });

  it('does not blame the task for a source that the service cannot read', async () => {
    await using server = await scriptedServer(() => ({
      json: { code: '<error loading code: no such key>' },
    }));
    await using grader = graderOf(server, taskWith({ verifier_code: null, verifier_id: 'v-1' }));
    expect(await failureOf(grader.verify())).toMatchObject({ class: 'infra', code: 'verifier_unreachable' });
  });

  it.each<[Reply, object]>([
    ['cut', { class: 'infra', code: 'verifier_unreachable', retryable: true }],
    [
      { status: 502, text: '<h1>Bad Gateway</h1>' },
      { class: 'infra', code: 'verifier_unreachable', retryable: true },
    ],
    [
      { status: 401, json: { detail: 'Invalid API key' } },
      { class: 'infra', code: 'fleet_auth', retryable: false },
    ],
    [
      { status: 422, json: { detail: [{ loc: ['body', 'bundle'], msg: 'not a zip' }] } },
      { class: 'task', code: 'verifier_refused', retryable: false },
    ],
    [
      { status: 400, json: { detail: "Instance 'i-1' is not running" } },
      { class: 'infra', code: 'verifier_unreachable', retryable: true },
    ],
  ])('fails without another try on %j', async (reply, failure) => {
    await using server = await scriptedServer(({ url }) =>
      url.startsWith('/v1/verifiers/check') ? { json: { success: false } } : reply,
    );
    await using grader = graderOf(server);
    expect(await failureOf(grader.verify())).toMatchObject({ phase: 'grade', ...failure });
    expect(executions(server)).toHaveLength(1);
  });

  it('tells an execution that failed as what it is', async () => {
    const error = { type: 'KeyError', message: "'bookings' not found", traceback: 'Traceback ...' };
    await using server = await scriptedServer(({ url }) =>
      url.startsWith('/v1/verifiers/check')
        ? { json: { success: true } }
        : { json: { success: false, result: null, error, stdout: '', execution_time_ms: 3 } },
    );
    await using grader = graderOf(server);
    expect(await grader.verify()).toMatchObject({ success: false, error });
    expect(executions(server)).toHaveLength(1);
  });

  it('passes on NaN, which is no null', async () => {
    await using server = await scriptedServer(({ url }) =>
      url.startsWith('/v1/verifiers/check')
        ? { json: { success: true } }
        : { text: '{"success": true, "result": NaN}', headers: { 'content-type': 'application/json' } },
    );
    await using grader = graderOf(server);
    expect((await grader.verify()).result).toBeNaN();
  });

  it('ends with its signal', async () => {
    await using server = await scriptedServer(() => 'hang');
    await using grader = graderOf(server);
    const stop = new AbortController();
    const reason = new Error('cancelled');
    const verifying = grader.verify({ signal: stop.signal });
    stop.abort(reason);
    await expect(verifying).rejects.toBe(reason);
  });

  it('is executed by a local Fleet', async () => {
    await using fleet = await startLocalFleet({ environments: await shippedEnvironments() });
    await using client = new FleetClient({ baseUrl: fleet.url, apiKey: 'any' });
    const known = new KnownVerifiers();
    const { instance_id } = await client.createInstance({ env_key: 'bike-workshop' }, { region: null });
    const verify = async (final_answer: string | null): Promise<VerifierAnswer> =>
      executeVerifier({ client, known, task: taskWith(), instance_id, request: { ...graded, final_answer } });
    expect(await verify('yes')).toMatchObject({ success: true, result: 1 });
    expect(await verify(null)).toMatchObject({ success: true, result: 0 });
  });
});
