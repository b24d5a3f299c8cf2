import { existsSync, readdirSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { describe, expect, it } from 'vitest';
import { verifierCall } from '../../../src/fleet/verifier/call.ts';
import type { LocalFleet } from '../../../src/local-fleet/index.ts';
import { until } from '../../support/wait.ts';
import { ask, create, startNotesFleet, type Answer } from './fleet-client.ts';

const countNotes = `
def verify(env, final_answer=None):
    print("looking")
    added = len(env.db("current").table("notes").all()) - len(env.db("seed").table("notes").all())
    return {"score": added, "answer": final_answer}
`;

function callOf(
  instance_id: string,
  code: string,
  extra: Record<string, unknown> = {},
): ReturnType<typeof verifierCall> {
  const call = verifierCall({
    task: { task_key: 't1', region: null, verifier_runtime_version: null },
    code,
    instance_id,
    final_answer: 'tea',
    conversation: [],
    timeout_seconds: 30,
  });
  return { ...call, body: { ...call.body, ...extra } };
}

const execute = (fleet: LocalFleet, body: object): Promise<Answer> =>
  ask(`${fleet.url}/v1/verifiers/execute`, 'POST', body);

const withBundle = ({ bundle, body }: ReturnType<typeof verifierCall>): object => ({
  ...body,
  bundle: Buffer.from(bundle).toString('base64'),
});

describe('a verifier', () => {
  it('is uploaded once, and grades what the tools have left', async () => {
    await using fleet = await startNotesFleet();
    const { instance_id, urls } = (await create(fleet)).json;
    const call = callOf(instance_id, countNotes);
    const check = `${fleet.url}/v1/verifiers/check?sha256=${call.sha256}`;
    expect((await ask(check, 'GET')).json).toMatchObject({ success: false });
    expect(await execute(fleet, call.body)).toMatchObject({
      status: 404,
      json: { detail: expect.stringContaining('Bundle not found') },
    });
    const insert = { query: "INSERT INTO notes (text) VALUES ('tea')", read_only: false };
    await ask(`${urls.manager.api}/resources/sqlite/current/query`, 'POST', insert);
    const first = await execute(fleet, withBundle(call));
    expect(first).toMatchObject({
      status: 200,
      json: {
        success: true,
        result: { score: 1, answer: 'tea' },
        error: null,
        execution_time_ms: expect.any(Number),
        execution_id: expect.any(String),
        verifier_id: expect.any(String),
        bundle_cache_hit: false,
        key: 't1',
        version: 1,
      },
    });
    expect(first.json.stdout).toContain('looking');
    expect((await ask(check, 'GET')).json).toMatchObject({ success: true, key: 't1' });
    expect((await execute(fleet, call.body)).json).toMatchObject({ success: true, bundle_cache_hit: true });
  });

  it('that raises is an execution failure with its traceback, not a grade', async () => {
    await using fleet = await startNotesFleet();
    const { instance_id } = (await create(fleet)).json;
    const call = callOf(instance_id, 'def verify(env):\n    raise KeyError("nothing there")');
    expect((await execute(fleet, withBundle(call))).json).toMatchObject({
      success: false,
      result: null,
      error: {
        type: 'KeyError',
        message: expect.stringContaining('nothing there'),
        traceback: expect.stringContaining('verify'),
      },
    });
  });

  it('cannot look at an instance that does not run', async () => {
    await using fleet = await startNotesFleet();
    const { instance_id } = (await create(fleet)).json;
    await ask(`${fleet.url}/v1/env/instances/${instance_id}`, 'DELETE');
    const words = async (id: string): Promise<unknown> =>
      (await execute(fleet, withBundle(callOf(id, countNotes)))).json;
    expect(await words(instance_id)).toMatchObject({
      success: false,
      error: { message: `Instance '${instance_id}' is not running (status: stopped)` },
    });
    expect(await words('unheard-of')).toMatchObject({
      success: false,
      error: { type: 'InstanceNotRunning' },
    });
  });

  it('is refused when the call does not fit', async () => {
    await using fleet = await startNotesFleet();
    const { instance_id } = (await create(fleet)).json;
    const call = callOf(instance_id, countNotes);
    const body = withBundle(call);
    expect((await execute(fleet, { ...body, timeout: 301 })).json.detail[0]).toMatchObject({
      loc: ['body', 'timeout'],
    });
    expect((await execute(fleet, { ...body, function_name: 'a b' })).status).toBe(422);
    expect((await execute(fleet, { ...body, bundle: 'no base64!' })).status).toBe(422);
    expect((await execute(fleet, { ...body, args_array: [] })).json.detail).toContain('args_array');
    expect((await execute(fleet, { ...body, sha256: '0'.repeat(64) })).json.detail).toContain(call.sha256);
    expect((await execute(fleet, { ...body, sha256: null, bundle: null })).status).toBe(400);
  });

  it('ends with its instance and with the server, leaving neither process nor files', async () => {
    const hanging = 'def verify(env):\n    while True:\n        pass';
    const directories = (): string[] =>
      readdirSync(tmpdir()).filter(
        (name) => /^(rp|rollpool)-/.test(name) && name.includes(`-${process.pid}-`),
      );
    const before = directories();
    const fleet = await startNotesFleet({ verifierConcurrency: 2 });
    const { instance_id } = (await create(fleet)).json;
    const other = (await create(fleet)).json.instance_id;
    const own = execute(fleet, withBundle(callOf(instance_id, hanging)));
    const last = execute(fleet, withBundle(callOf(other, hanging))).catch((error: unknown) => error);
    await until(
      () => directories().filter((name) => name.includes('verifier')).length === 2,
      'both are running',
    );
    await ask(`${fleet.url}/v1/env/instances/${instance_id}`, 'DELETE');
    expect((await own).json).toMatchObject({ success: false, error: { type: 'ExecutionAborted' } });
    await fleet[Symbol.asyncDispose]();
    await last;
    expect(directories()).toEqual(before);
    expect(existsSync(`${tmpdir()}/${instance_id}`)).toBe(false);
  });
});

describe('a verifier with a fault', () => {
  async function executeWith(
    ...faults: Parameters<LocalFleet['faults']['add']>[0][]
  ): Promise<{ fleet: LocalFleet; again: () => Promise<Answer> }> {
    const fleet = await startNotesFleet();
    const { instance_id } = (await create(fleet)).json;
    for (const fault of faults) fleet.faults.add(fault);
    return { fleet, again: () => execute(fleet, withBundle(callOf(instance_id, countNotes))) };
  }

  it('has a judge that failed and a score that is made up', async () => {
    const { fleet, again } = await executeWith({ kind: 'judge_error', score: 0.5 });
    await using _ = fleet;
    const { json } = await again();
    expect(json).toMatchObject({ success: true, result: 0.5 });
    expect(json.stdout).toMatch(/^JUDGE ERROR: /m);
    expect((await again()).json.result).toMatchObject({ score: 0 });
  });

  it('is not executed twice, then is', async () => {
    const { fleet, again } = await executeWith({ kind: 'execution_failure', times: 2 });
    await using _ = fleet;
    expect((await again()).json).toMatchObject({ success: false, error: { type: 'RuntimeError' } });
    expect((await again()).json.success).toBe(false);
    expect((await again()).json.success).toBe(true);
  });

  it('is never executed', async () => {
    const { fleet, again } = await executeWith({ kind: 'execution_failure', times: 'always' });
    await using _ = fleet;
    for (let tries = 0; tries < 5; tries += 1) expect((await again()).json.success).toBe(false);
  });

  it.each([
    ['null', null, '"result":null'],
    ['an object', { score: 0.25 }, '"result":{"score":0.25}'],
    ['a number out of range', 17, '"result":17'],
    ['not a number', NaN, '"result":NaN'],
    ['an infinite score', { score: -Infinity, notes: ['a'] }, '"result":{"score":-Infinity,"notes":["a"]}'],
    ['a word', 'yes', '"result":"yes"'],
  ])('gives %s as its result', async (_what, result, text) => {
    const { fleet, again } = await executeWith({ kind: 'verifier_result', result });
    await using _ = fleet;
    const answer = await again();
    expect(answer.status).toBe(200);
    expect(answer.text).toContain('"success":true');
    expect(answer.text).toContain(text);
  });

  it('meets a service that fails', async () => {
    const { fleet, again } = await executeWith({ kind: 'execute_error', status: 502 });
    await using _ = fleet;
    expect((await again()).status).toBe(502);
    expect((await again()).status).toBe(200);
  });
});
