import { createServer } from 'node:net';
import { describe, expect, it } from 'vitest';
import { FleetApiError } from '../../../src/fleet/api/api-error.ts';
import { FleetClient } from '../../../src/fleet/api/client.ts';
import { scriptedServer, type Reply, type ScriptedServer, type SeenRequest } from './scripted-server.ts';

const key = 'sk_very-secret';
const clientFor = (server: Pick<ScriptedServer, 'url'>): FleetClient =>
  new FleetClient({ baseUrl: server.url, apiKey: key, retry: { base_ms: 5, longest_ms: 20 } });
const instance = {
  instance_id: 'i-1',
  status: 'running',
  env_key: 'booking',
  surprise: { of: 'the server' },
};

async function failure(call: Promise<unknown>): Promise<FleetApiError> {
  const error: unknown = await call.then(
    () => new Error('it succeeded'),
    (reason: unknown) => reason,
  );
  if (error instanceof FleetApiError) return error;
  throw error;
}

/** Answers the first calls as listed, the rest with the last. */
const inTurn =
  (...replies: Reply[]) =>
  (_request: SeenRequest, index: number): Reply =>
    replies[Math.min(index, replies.length - 1)]!;

describe('the Fleet client', () => {
  it('says who calls, with one request id for all tries of a call', async () => {
    await using server = await scriptedServer(
      inTurn({ status: 503, json: {} }, { status: 500, json: {} }, { json: instance }),
    );
    await using client = clientFor(server);
    expect(await client.instance('i-1')).toMatchObject({ instance_id: 'i-1', status: 'running' });
    await client.instance('i-1');
    const ids = server.seen.map(({ headers }) => headers['x-request-id']);
    expect(new Set(ids.slice(0, 3)).size).toBe(1);
    expect(ids[3]).not.toBe(ids[0]);
    const { headers } = server.seen[0]!;
    expect(headers).toMatchObject({
      authorization: `Bearer ${key}`,
      'x-fleet-sdk-language': 'TypeScript',
    });
    expect(Number(headers['x-request-timestamp'])).toBeGreaterThan(1_600_000_000_000);
  });

  it('speaks the paths of the wire', async () => {
    await using server = await scriptedServer(({ method, url }) => {
      if (url.startsWith('/v1/account'))
        return { json: { team_id: 't', instance_limit: 5, instance_count: 1 } };
      if (url === '/v1/env/' || url.startsWith('/v1/env/runs')) return { json: [] };
      if (url.startsWith('/v1/env/booking')) return { json: { env_key: 'booking' } };
      if (url.startsWith('/v1/regions')) return { json: ['us-west-1'] };
      if (url.endsWith('/heartbeat')) return { json: { success: true } };
      if (url.startsWith('/v1/verifiers/check')) return { json: { success: true } };
      if (url.startsWith('/v1/verifiers/execute')) return { json: { success: true, result: 1 } };
      if (url.startsWith('/v1/verifiers/')) return { json: { code: 'def verify(env): pass' } };
      if (method === 'GET' && url.startsWith('/v1/env/instances?')) return { json: [instance] };
      return { json: instance };
    });
    await using client = clientFor(server);
    expect(await client.account()).toMatchObject({ instance_limit: 5 });
    await client.environmentTypes();
    await client.environmentType('booking');
    expect(await client.regions()).toEqual(['us-west-1']);
    await client.createInstance({ env_key: 'booking' }, { region: null });
    await client.instances({ status: 'running', run_id: 'rp:{pool}:r' });
    await client.batchDelete('rp:{pool}:r');
    await client.heartbeat('i-1', 'us-west-1');
    await client.runs('all');
    expect(await client.deleteInstance('i-1')).toBe(true);
    expect(await client.hasBundle('abc')).toBe(true);
    await client.verifier('v-1');
    await client.executeVerifier({ key: 'k' });
    expect(server.seen.map(({ method, url }) => `${method} ${url}`)).toEqual([
      'GET /v1/account',
      'GET /v1/env/',
      'GET /v1/env/booking',
      'GET /v1/regions',
      'POST /v1/env/instances',
      'GET /v1/env/instances?status=running&run_id=rp%3A%7Bpool%7D%3Ar',
      'DELETE /v1/env/instances/batch?run_id=rp%3A%7Bpool%7D%3Ar',
      'POST /v1/env/instances/i-1/heartbeat',
      'GET /v1/env/runs?active=all',
      'DELETE /v1/env/instances/i-1',
      'GET /v1/verifiers/check?sha256=abc',
      'GET /v1/verifiers/v-1',
      'POST /v1/verifiers/execute',
    ]);
    expect(server.seen[7]!.body).toEqual({ region: 'us-west-1' });
  });

  it('never repeats a creation or an execution by itself', async () => {
    await using server = await scriptedServer(() => ({ status: 503, json: { detail: 'busy' } }));
    await using client = clientFor(server);
    await failure(client.createInstance({}, { region: null }));
    await failure(client.executeVerifier({}));
    expect(server.seen).toHaveLength(2);
  });

  it('takes a deletion of what is gone for done', async () => {
    await using server = await scriptedServer(() => ({
      status: 404,
      json: { detail: 'Instance not found' },
    }));
    await using client = clientFor(server);
    expect(await client.deleteInstance('i-1')).toBe(false);
    await client.batchDelete('r');
    await expect(client.batchDelete('')).rejects.toThrow('needs a run id');
  });

  it('looks again for an instance that may not be seen yet', async () => {
    await using server = await scriptedServer(inTurn({ status: 404, json: {} }, { json: instance }));
    await using client = clientFor(server);
    expect(await client.instance('i-1', { retryNotFound: true })).toMatchObject({ instance_id: 'i-1' });
  });

  it('keeps the key out of every error, also where the server repeats it', async () => {
    await using server = await scriptedServer(() => ({
      status: 401,
      json: { detail: `Invalid API key '${key}'` },
    }));
    await using client = clientFor(server);
    const error = await failure(client.account());
    expect(error.kind).toBe('authentication');
    expect(error.message).toContain("Invalid API key '[key]'");
    expect(JSON.stringify({ ...error, message: error.message, stack: error.stack })).not.toContain(key);
  });

  it('leaves an answer as it is, also where the key is part of it', async () => {
    await using server = await scriptedServer(() => ({ json: { ...instance, env_key: key } }));
    await using client = clientFor(server);
    expect(await client.instance('i-1')).toMatchObject({ env_key: key });
  });

  it("tells a proxy's page from an answer", async () => {
    await using server = await scriptedServer(
      inTurn({ status: 404, text: '<title>Nothing here</title>' }, { text: '<html>Welcome to nginx</html>' }),
    );
    await using client = clientFor(server);
    expect((await failure(client.account())).message).toMatch(/answered 404: Nothing here$/);
    const error = await failure(client.account());
    expect(error).toMatchObject({ kind: 'malformed', status: 200 });
    expect(error.message).toContain('not JSON (text/html): <html>Welcome');
  });

  it('names the fields that an answer lacks', async () => {
    await using server = await scriptedServer(() => ({ json: { status: 5 } }));
    await using client = clientFor(server);
    const error = await failure(client.instance('i-1'));
    expect(error.kind).toBe('malformed');
    expect(error.message).toMatch(/GET \/v1\/env\/instances\/i-1 .*instance_id.*status/);
  });

  it('tells a cut connection from one that was never made', async () => {
    await using server = await scriptedServer(() => 'cut');
    await using client = clientFor(server);
    expect(await failure(client.createInstance({}, { region: null }))).toMatchObject({
      kind: 'transport',
      transient: true,
      unsent: false,
    });
    const closed = createServer();
    await new Promise<void>((resolve) => closed.listen(0, '127.0.0.1', resolve));
    const { port } = closed.address() as { port: number };
    await new Promise((resolve) => closed.close(resolve));
    await using nobody = clientFor({ url: `http://127.0.0.1:${port}` });
    const error = await failure(nobody.createInstance({}, { region: null }));
    expect(error).toMatchObject({ kind: 'transport', transient: true, unsent: true });
    expect(error.message).toContain('ECONNREFUSED');
  });

  it('gives up a call without an answer in time, and one that is aborted with its reason', async () => {
    await using server = await scriptedServer(() => 'hang');
    await using client = clientFor(server);
    const error = await failure(client.account({ timeout_ms: 100 }));
    expect(error).toMatchObject({ kind: 'timeout', transient: true });
    const stop = new AbortController();
    const reason = new Error('cancelled');
    const call = client.account({ signal: stop.signal });
    stop.abort(reason);
    await expect(call).rejects.toBe(reason);
  });

  it('asks the manager of an instance, whose refusals are answers', async () => {
    await using server = await scriptedServer(({ url, body }) => {
      if (url === '/v1/runner-auth/token') return { json: { token: 'runner' } };
      if (url === '/app/api/v1/env/reset') return { json: { success: true, message: 'ok' } };
      if (url === '/app/api/v1/env/resources')
        return { json: { resources: [{ name: 'seed', type: 'sqlite', mode: 'ro' }] } };
      if (url.endsWith('/describe')) return { json: { success: true, tables: [{ name: 't' }] } };
      if (url.endsWith('/query') && body.query === 'nonsense')
        return { json: { success: false, error: 'syntax error', message: 'failed' } };
      if (url.endsWith('/query')) return { json: { success: true, columns: ['n'], rows: [[1]] } };
      if (url.endsWith('/diff/structured')) return { json: { success: true, diff: {} } };
      return { json: { status: 'healthy' } };
    });
    await using client = clientFor(server);
    const manager = client.manager(`${server.url}/app/api/v1/env/`);
    expect(await manager.reset()).toMatchObject({ success: true });
    expect(await manager.resources()).toEqual([{ name: 'seed', type: 'sqlite', mode: 'ro' }]);
    expect((await manager.describe('current')).tables).toEqual([{ name: 't' }]);
    expect((await manager.query('current', 'SELECT 1')).rows).toEqual([[1]]);
    expect(await manager.query('current', 'nonsense')).toMatchObject({
      success: false,
      error: 'syntax error',
    });
    expect(await manager.diff({ tables: ['log'] })).toMatchObject({ success: true });
    expect(await manager.health()).toMatchObject({ status: 'healthy' });
    expect(server.calls().filter((call) => call === 'GET /v1/runner-auth/token')).toHaveLength(1);
    expect(server.seen.at(-1)!.headers['x-runner-token']).toBe('runner');
    expect(server.seen.find(({ url }) => url.endsWith('/diff/structured'))!.body).toEqual({
      ignore_config: { tables: ['log'], fields: [], table_fields: {} },
    });
  });
});
