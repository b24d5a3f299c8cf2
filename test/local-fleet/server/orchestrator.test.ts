import { describe, expect, it } from 'vitest';
import { ask, create, key, startNotesFleet } from './fleet-client.ts';

describe('the orchestrator', () => {
  it('asks every caller for the key', async () => {
    await using fleet = await startNotesFleet();
    const url = `${fleet.url}/v1/env`;
    expect(await ask(url, 'GET', undefined, {})).toMatchObject({
      status: 401,
      json: { detail: 'Missing API key' },
    });
    expect(await ask(url, 'GET', undefined, { authorization: 'Bearer sk_wrong' })).toMatchObject({
      status: 401,
      json: { detail: 'Invalid API key' },
    });
    expect((await ask(url, 'GET')).status).toBe(200);
  });

  it('takes any bearer when it has no key of its own', async () => {
    await using fleet = await startNotesFleet({ apiKey: null });
    expect((await ask(`${fleet.url}/v1/env`, 'GET', undefined, {})).status).toBe(401);
    expect((await ask(`${fleet.url}/v1/env`, 'GET', undefined, { authorization: 'Bearer x' })).status).toBe(
      200,
    );
  });

  it('tells of its environments, regions and account', async () => {
    await using fleet = await startNotesFleet({ instanceLimit: 7 });
    await create(fleet);
    const notes = {
      env_key: 'notes',
      name: 'Notes',
      default_version: 'v1.0.0',
      versions: { 'v1.0.0': 'v1.0.0' },
    };
    expect((await ask(`${fleet.url}/v1/env/`, 'GET')).json).toMatchObject([notes]);
    expect((await ask(`${fleet.url}/v1/env/notes`, 'GET')).json).toMatchObject(notes);
    expect((await ask(`${fleet.url}/v1/env/else`, 'GET')).status).toBe(404);
    expect((await ask(`${fleet.url}/v1/regions`, 'GET')).json).toContain('us-west-1');
    expect((await ask(`${fleet.url}/v1/account`, 'GET')).json).toMatchObject({
      team_id: expect.any(String),
      team_name: expect.any(String),
      instance_limit: 7,
      instance_count: 1,
    });
  });

  it('creates, shows, lists and deletes an instance', async () => {
    await using fleet = await startNotesFleet();
    const made = await create(fleet, { run_id: 'r1', env_variables: { USER: '1' }, image_type: 'mcp' });
    const id = made.json.instance_id as string;
    const root = `${fleet.url}/i/${id}/`;
    expect(made).toMatchObject({
      status: 200,
      json: {
        env_key: 'notes',
        version: 'v1.0.0',
        status: 'running',
        data_key: 'shopping',
        data_version: 'v0.0.1',
        region: 'us-west-1',
        run_id: 'r1',
        env_variables: { USER: '1' },
        terminated_at: null,
        health: true,
        urls: { root, app: [root], manager: { api: `${root}api/v1/env`, reset: `${root}api/v1/env/reset` } },
      },
    });
    expect(fleet.instances()).toMatchObject([{ instance_id: id, run_id: 'r1', status: 'running', calls: 0 }]);
    const one = `${fleet.url}/v1/env/instances/${id}`;
    expect((await ask(one, 'GET')).json).toEqual(made.json);
    const list = `${fleet.url}/v1/env/instances`;
    expect((await ask(`${list}?run_id=r1`, 'GET')).json).toHaveLength(1);
    expect((await ask(`${list}?run_id=r2`, 'GET')).json).toHaveLength(0);
    expect((await ask(one, 'DELETE')).json).toMatchObject({ instance_id: id, status: 'stopped' });
    expect(fleet.instances()).toEqual([]);
    expect((await ask(one, 'DELETE')).status).toBe(404);
    expect((await ask(one, 'GET')).json).toMatchObject({
      status: 'stopped',
      terminated_at: expect.any(String),
    });
    expect((await ask(list, 'GET')).json).toEqual([]);
    expect((await ask(`${list}?status=stopped`, 'GET')).json).toHaveLength(1);
    expect((await ask(`${list}/unheard-of`, 'GET')).status).toBe(404);
  });

  it('names the URL by which the client reached it', async () => {
    await using fleet = await startNotesFleet();
    const under = fleet.url.replace('127.0.0.1', 'localhost');
    const made = await ask(`${under}/v1/env/instances`, 'POST', { env_key: 'notes' });
    expect(made.json.urls.root).toBe(`${under}/i/${made.json.instance_id}/`);
  });

  it.each([
    [{ env_key: 'shop' }, "Environment 'shop' not found"],
    [{ env_version: 'v9' }, "Version 'v9' not found for environment 'notes'"],
    [{ data_key: 'work' }, "Data key 'work' not found for environment 'notes'"],
    [
      { data_key: 'shopping', data_version: 'v9' },
      "Data version 'v9' not found for data key 'shopping' of environment 'notes'",
    ],
    [{ region: 'mars' }, /^Region mars not supported\. Please use \['us-west-1', /],
  ])('refuses what it does not have in its own words: %j', async (asked, words) => {
    await using fleet = await startNotesFleet();
    const answer = await create(fleet, asked);
    expect(answer.status).toBe(400);
    expect(answer.json.detail).toMatch(words);
    expect(fleet.instances()).toEqual([]);
  });

  it.each([{ env_key: 3 }, { ttl_seconds: 0 }, { heartbeat_interval: 5 }, { env_variables: 'x' }])(
    'says which field of a creation does not fit: %j',
    async (asked) => {
      await using fleet = await startNotesFleet();
      const answer = await create(fleet, asked);
      expect(answer.status).toBe(422);
      expect(answer.json.detail[0]).toMatchObject({
        loc: ['body', Object.keys(asked)[0]],
        msg: expect.any(String),
      });
    },
  );

  it('does not go beyond its instance limit', async () => {
    await using fleet = await startNotesFleet({ instanceLimit: 2 });
    const answers = await Promise.all([create(fleet), create(fleet), create(fleet)]);
    const refused = answers.filter(({ status }) => status === 403);
    expect(refused).toHaveLength(1);
    expect(refused[0]?.json.detail).toContain('You have 2 running instances out of a maximum of 2.');
    const first = answers.find(({ status }) => status === 200);
    await ask(`${fleet.url}/v1/env/instances/${first?.json.instance_id}`, 'DELETE');
    expect((await create(fleet)).status).toBe(200);
  });

  it('deletes all that a run has left, and nothing else', async () => {
    await using fleet = await startNotesFleet();
    await Promise.all([
      create(fleet, { run_id: 'a' }),
      create(fleet, { run_id: 'a' }),
      create(fleet, { run_id: 'b' }),
    ]);
    const batch = `${fleet.url}/v1/env/instances/batch`;
    expect((await ask(batch, 'DELETE')).status).toBe(400);
    expect((await ask(`${batch}?run_id=a`, 'DELETE')).json).toMatchObject([
      { status: 'stopped' },
      { run_id: 'a' },
    ]);
    expect((await ask(`${batch}?run_id=a`, 'DELETE')).json).toEqual([]);
    expect(fleet.instances()).toMatchObject([{ run_id: 'b' }]);
    expect((await ask(`${fleet.url}/v1/env/runs?active=active`, 'GET')).json).toMatchObject([
      { run_id: 'b' },
    ]);
    expect((await ask(`${fleet.url}/v1/env/runs?active=inactive`, 'GET')).json).toMatchObject([
      { run_id: 'a', running_count: 0, total_count: 2 },
    ]);
    expect((await ask(`${batch}?profile_id=self`, 'DELETE')).json).toMatchObject([{ run_id: 'b' }]);
    expect(fleet.instances()).toEqual([]);
  });

  it('makes one instance of a creation that is sent twice, and says which', async () => {
    await using fleet = await startNotesFleet();
    const headers = { authorization: `Bearer ${key}`, 'x-request-id': 'one-call' };
    const url = `${fleet.url}/v1/env/instances`;
    const first = await ask(url, 'POST', { env_key: 'notes' }, headers);
    const again = await ask(url, 'POST', { env_key: 'notes' }, headers);
    expect(again).toMatchObject({
      status: 409,
      json: { detail: { error: 'duplicate_request_id', instance_id: first.json.instance_id } },
    });
    expect(fleet.instances()).toHaveLength(1);
  });

  it('tells of the tasks it was given, and of their verifiers by id', async () => {
    const task = {
      task_key: 't1',
      kind: 'fleet' as const,
      prompt: 'Add tea.',
      limits: {},
      metadata: { difficulty: 1 },
      env_key: 'notes',
      env_version: 'v1.0.0',
      data_key: 'shopping',
      data_version: null,
      region: null,
      image_type: null,
      env_variables: {},
      verifier_code: 'def verify(env):\n    return 1',
      verifier_id: 'ver-1',
      verifier_runtime_version: null,
      modality: 'tool_use' as const,
    };
    await using fleet = await startNotesFleet({
      tasks: [task, { ...task, task_key: 't2', verifier_code: null }],
    });
    expect((await ask(`${fleet.url}/v1/tasks`, 'GET')).json).toMatchObject({ total: 2 });
    expect((await ask(`${fleet.url}/v1/tasks?task_keys=t1&task_keys=t9`, 'GET')).json).toMatchObject({
      tasks: [{ key: 't1', environment_id: 'notes', verifier: { verifier_id: 'ver-1', version: 1 } }],
      total: 1,
    });
    expect((await ask(`${fleet.url}/v1/tasks/t2`, 'GET')).json).toMatchObject({
      prompt: 'Add tea.',
      verifier: null,
    });
    expect((await ask(`${fleet.url}/v1/tasks/t9`, 'GET')).status).toBe(404);
    expect((await ask(`${fleet.url}/v1/verifiers/ver-1`, 'GET')).json).toMatchObject({
      key: 't1',
      code: task.verifier_code,
    });
    expect((await ask(`${fleet.url}/v1/verifiers/ver-9`, 'GET')).status).toBe(404);
  });

  it('says when there is no such path or method', async () => {
    await using fleet = await startNotesFleet();
    expect(await ask(`${fleet.url}/v1/jobs`, 'GET')).toMatchObject({
      status: 404,
      json: { detail: 'Not Found' },
    });
    expect((await ask(`${fleet.url}/v1/account`, 'POST', {})).status).toBe(405);
    expect((await ask(`${fleet.url}/v1/env/%ff`, 'GET')).status).toBe(404);
    const broken = await fetch(`${fleet.url}/v1/env/instances`, {
      method: 'POST',
      headers: { authorization: `Bearer ${key}` },
      body: '{',
    });
    expect(broken.status).toBe(422);
    await broken.text();
  });
});
