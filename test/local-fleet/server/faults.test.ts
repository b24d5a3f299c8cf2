import { describe, expect, it } from 'vitest';
import type { FaultInput, LocalFleet } from '../../../src/local-fleet/index.ts';
import { until } from '../../support/wait.ts';
import { ask, connect, create, startNotesFleet, type McpConnection } from './fleet-client.ts';

async function withFault(fault: FaultInput): Promise<LocalFleet> {
  const fleet = await startNotesFleet();
  fleet.faults.add(fault);
  return fleet;
}

const rootOf = async (fleet: LocalFleet): Promise<string> => (await create(fleet)).json.urls.root as string;

const addNote = ({ client }: McpConnection): ReturnType<McpConnection['client']['callTool']> =>
  client.callTool({ name: 'add_note', arguments: { text: 'tea' } });

async function notes(fleet: LocalFleet): Promise<number> {
  const [instance] = fleet.instances();
  const url = `${fleet.url}/i/${instance?.instance_id}/api/v1/env/resources/sqlite/current/query`;
  return (await ask(url, 'POST', { query: 'SELECT count(*) FROM notes' })).json.rows[0][0] as number;
}

describe('creation', () => {
  it('fails in passing, in the words of the service, and then works', async () => {
    await using fleet = await withFault({ kind: 'create_transient', times: 2 });
    for (let tries = 0; tries < 2; tries += 1) {
      const refused = await create(fleet);
      expect(refused.status).toBe(400);
      expect(refused.json.detail).toContain('seed_placement_failed');
      expect(refused.json.detail).toContain('"retryable": true');
    }
    expect((await create(fleet)).status).toBe(200);
    fleet.faults.add({ kind: 'create_transient', as: 'unavailable' });
    expect((await create(fleet)).status).toBe(503);
  });

  it('meets the burst limit, with and without a time to wait', async () => {
    await using fleet = await withFault({ kind: 'create_burst' });
    const detail = 'Too many in-flight instance creations for this team';
    const bare = await create(fleet);
    expect(bare).toMatchObject({ status: 429, json: { detail } });
    expect(bare.headers.get('retry-after')).toBeNull();
    fleet.faults.add({ kind: 'create_burst', retry_after: 3 });
    expect((await create(fleet)).headers.get('retry-after')).toBe('3');
    expect(fleet.instances()).toEqual([]);
  });

  it('meets the instance limit, in words or as an error type', async () => {
    await using fleet = await withFault({ kind: 'create_limit' });
    expect(await create(fleet)).toMatchObject({
      status: 403,
      json: { detail: expect.stringContaining('running instances out of a maximum of') },
    });
    fleet.faults.add({ kind: 'create_limit', shape: 'error_type' });
    expect(await create(fleet)).toMatchObject({
      status: 403,
      json: { detail: { error_type: 'instance_limit_exceeded', running_instances: 0, instance_limit: 0 } },
    });
  });

  it('succeeds while its answer is lost, so that only its run still leads to the instance', async () => {
    await using fleet = await withFault({ kind: 'create_lost' });
    await expect(create(fleet, { run_id: 'lost' })).rejects.toThrow('fetch failed');
    fleet.faults.add({ kind: 'create_lost', as: 'gateway_timeout' });
    expect((await create(fleet, { run_id: 'lost' })).status).toBe(504);
    expect(fleet.instances()).toHaveLength(2);
    await ask(`${fleet.url}/v1/env/instances/batch?run_id=lost`, 'DELETE');
    expect(fleet.instances()).toEqual([]);
  });

  it('goes on when its client has left', async () => {
    await using fleet = await withFault({ kind: 'create_slow', ms: 200 });
    const leave = new AbortController();
    const asked = fetch(`${fleet.url}/v1/env/instances`, {
      method: 'POST',
      headers: { authorization: 'Bearer sk_test' },
      body: JSON.stringify({ env_key: 'notes' }),
      signal: leave.signal,
    });
    setTimeout(() => leave.abort(), 50);
    await expect(asked).rejects.toThrow();
    expect(fleet.instances()).toEqual([]);
    await until(() => fleet.instances().length === 1, 'the instance is there all the same');
  });
});

describe('any request', () => {
  it('can find that its key is not taken any more', async () => {
    await using fleet = await withFault({ kind: 'wrong_key', times: 'always' });
    expect(await create(fleet)).toMatchObject({ status: 401, json: { detail: 'Invalid API key' } });
    fleet.faults.clear();
    const root = await rootOf(fleet);
    fleet.faults.add({ kind: 'wrong_key' });
    await expect(connect(`${root}mcp`)).rejects.toThrow('Invalid API key');
  });
});

describe('an instance', () => {
  it('is not behind its gateway yet, for a while', async () => {
    await using fleet = await withFault({ kind: 'bad_gateway', on: 'mcp', times: 2 });
    const root = await rootOf(fleet);
    expect((await ask(`${root}api/v1/env/health`, 'GET')).status).toBe(200);
    await expect(connect(`${root}mcp`)).rejects.toThrow('502');
    await expect(connect(`${root}api/v1/mcp`)).rejects.toThrow('502');
    await using session = await connect(`${root}mcp`);
    expect(session.sessionId).toBeDefined();
    fleet.faults.add({ kind: 'bad_gateway', on: 'manager' });
    expect((await ask(`${root}api/v1/env/reset`, 'POST', {})).text).toContain('<h1>502 Bad Gateway</h1>');
    expect((await ask(`${root}api/v1/env/reset`, 'POST', {})).status).toBe(200);
  });

  it('lacks one of its endpoints', async () => {
    await using fleet = await withFault({ kind: 'endpoint_missing', endpoint: 'mcp', times: 'always' });
    const root = await rootOf(fleet);
    await expect(connect(`${root}mcp`)).rejects.toThrow('Not Found');
    await using session = await connect(`${root}api/v1/mcp`);
    expect((await session.client.listTools()).tools).toHaveLength(3);
  });

  it('is limited to what a fault names', async () => {
    await using fleet = await startNotesFleet();
    const [one, other] = [(await create(fleet)).json, (await create(fleet)).json];
    const fault = fleet.faults.add({ kind: 'bad_gateway', instance: one.instance_id, times: 'always' });
    expect((await ask(`${other.urls.root}api/v1/env/health`, 'GET')).status).toBe(200);
    expect((await ask(`${one.urls.root}api/v1/env/health`, 'GET')).status).toBe(502);
    expect(fault.hits).toBe(1);
    fault.remove();
    expect((await ask(`${one.urls.root}api/v1/env/health`, 'GET')).status).toBe(200);
  });

  it('ends by itself after so many calls', async () => {
    await using fleet = await withFault({ kind: 'instance_gone', after_calls: 2 });
    const { instance_id, urls } = (await create(fleet)).json;
    await using session = await connect(`${urls.root}mcp`);
    await addNote(session);
    await addNote(session);
    await expect(addNote(session)).rejects.toThrow('502');
    await expect(addNote(session)).rejects.toThrow('502');
    expect(fleet.instances()).toEqual([]);
    expect(fleet.sessions()).toBe(0);
    const shown = await ask(`${fleet.url}/v1/env/instances/${instance_id}`, 'GET');
    expect(shown.json).toMatchObject({ status: 'error', health: false });
  });
});

describe('tools', () => {
  it('come late', async () => {
    await using fleet = await withFault({ kind: 'tools_late', times: 2 });
    await using session = await connect(`${await rootOf(fleet)}mcp`);
    const counts = [];
    for (let tries = 0; tries < 3; tries += 1) {
      counts.push((await session.client.listTools()).tools.length);
    }
    expect(counts).toEqual([0, 0, 2]);
  });

  it('are slow, when they are the ones meant', async () => {
    await using fleet = await withFault({ kind: 'tool_slow', ms: 150, tool: 'add_note' });
    await using session = await connect(`${await rootOf(fleet)}mcp`);
    await session.client.callTool({ name: 'list_notes' });
    const started = performance.now();
    await addNote(session);
    expect(performance.now() - started).toBeGreaterThan(140);
    expect(await notes(fleet)).toBe(2);
  });

  it('hang until whoever waits gives up, and do nothing', async () => {
    await using fleet = await withFault({ kind: 'tool_hang' });
    await using session = await connect(`${await rootOf(fleet)}mcp`);
    const call = session.client.callTool({ name: 'add_note', arguments: { text: 'tea' } }, undefined, {
      timeout: 100,
    });
    await expect(call).rejects.toThrow('timed out');
    await addNote(session);
    expect(await notes(fleet)).toBe(2);
  });

  it('hang until the server goes, and do not hold it', async () => {
    const fleet = await withFault({ kind: 'tool_hang' });
    const session = await connect(`${await rootOf(fleet)}mcp`);
    const call = addNote(session).catch((error: unknown) => error);
    await until(() => fleet.instances()[0]?.calls === 1, 'the call is there');
    await fleet[Symbol.asyncDispose]();
    await session.client.close();
    expect(await call).toBeInstanceOf(Error);
  });

  it('lose their session', async () => {
    await using fleet = await withFault({ kind: 'session_lost' });
    const root = await rootOf(fleet);
    await using session = await connect(`${root}mcp`);
    await expect(addNote(session)).rejects.toThrow('Session not found');
    await expect(addNote(session)).rejects.toThrow('Session not found');
    expect(fleet.sessions()).toBe(0);
    await using again = await connect(`${root}mcp`);
    await addNote(again);
    expect(await notes(fleet)).toBe(2);
  });

  it.each([
    ['before they did anything', false, 1],
    ['after they did it', true, 2],
  ])('lose their connection %s', async (_when, ran, count) => {
    await using fleet = await withFault({ kind: 'call_cut', ran });
    await using session = await connect(`${await rootOf(fleet)}mcp`);
    await expect(addNote(session)).rejects.toThrow('fetch failed');
    expect(await notes(fleet)).toBe(count);
  });
});

describe('deletion', () => {
  it('finds the instance gone', async () => {
    await using fleet = await withFault({ kind: 'delete_missing' });
    const { instance_id } = (await create(fleet)).json;
    expect((await ask(`${fleet.url}/v1/env/instances/${instance_id}`, 'DELETE')).status).toBe(404);
    expect(fleet.instances()).toEqual([]);
  });

  it('fails and has to be tried again', async () => {
    await using fleet = await withFault({ kind: 'delete_error', times: 2 });
    const { instance_id } = (await create(fleet)).json;
    const remove = (): ReturnType<typeof ask> =>
      ask(`${fleet.url}/v1/env/instances/${instance_id}`, 'DELETE');
    expect((await remove()).status).toBe(500);
    expect((await remove()).status).toBe(500);
    expect(fleet.instances()).toHaveLength(1);
    expect((await remove()).status).toBe(200);
  });
});

describe('a fault', () => {
  it('lets occasions pass first, and is done as often as it says', async () => {
    await using fleet = await withFault({ kind: 'create_burst', skip: 1, times: 2 });
    const statuses = [];
    for (let tries = 0; tries < 4; tries += 1) statuses.push((await create(fleet)).status);
    expect(statuses).toEqual([200, 429, 429, 200]);
  });

  it('can be switched on and off from another process', async () => {
    await using fleet = await startNotesFleet();
    const url = `${fleet.url}/__faults`;
    expect((await ask(url, 'POST', [{ kind: 'create_burst', times: 'always' }], {})).status).toBe(401);
    expect((await ask(url, 'POST', { kind: 'flood' })).status).toBe(422);
    expect((await ask(url, 'POST', [{ kind: 'create_burst', times: 'always' }])).status).toBe(200);
    expect((await create(fleet)).status).toBe(429);
    expect((await ask(url, 'DELETE')).status).toBe(200);
    expect((await create(fleet)).status).toBe(200);
  });
});
