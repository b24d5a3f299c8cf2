import { describe, expect, it } from 'vitest';
import type { EnvironmentProvider } from '../../src/fleet/environment.ts';
import { createFleetProvider } from '../../src/fleet/index.ts';
import type { FleetTimings } from '../../src/fleet/timings.ts';
import { until } from '../support/wait.ts';
import { scriptedServer, type Reply, type ScriptedServer, type SeenRequest } from './api/scripted-server.ts';
import { environmentRequest, quick, recordingGate } from './creation-record.ts';
import { failureOf } from '../support/failure-of.ts';

/*
 * What a local Fleet does not do: instances that start slowly or not at all, heartbeats that are refused, an answer that
 * is no instance.
 */

const instance = (status: string): Reply => ({
  json: { instance_id: 'i-1', status, urls: { root: 'http://127.0.0.1:9/' } },
});
const nothing: Reply = { json: {} };

/** What each kind of call is answered with, one after the other; the last one stays. */
async function service(replies: {
  readonly create: readonly Reply[];
  readonly get?: readonly Reply[];
  readonly heartbeat?: readonly Reply[];
}): Promise<ScriptedServer> {
  const counts = { create: 0, get: 0, heartbeat: 0 };
  return scriptedServer(({ method, url }: SeenRequest): Reply => {
    if (method === 'DELETE') return nothing;
    const kind = url.endsWith('/heartbeat') ? 'heartbeat' : method === 'POST' ? 'create' : 'get';
    const list = replies[kind] ?? [nothing];
    return list[Math.min(counts[kind]++, list.length - 1)]!;
  });
}

function providerOf(server: ScriptedServer, timings: Partial<FleetTimings> = {}): EnvironmentProvider {
  return createFleetProvider({
    baseUrl: server.url,
    apiKey: 'sk_test',
    gate: recordingGate().gate,
    retry: { base_ms: 5, longest_ms: 10 },
    timings: { ...quick, ...timings },
  });
}

const deletions = (server: ScriptedServer): string[] =>
  server.calls().filter((call) => call.startsWith('DELETE'));

describe('an instance', () => {
  it('is waited for until it runs, also where it is not seen at once', async () => {
    await using server = await service({
      create: [instance('pending')],
      get: [{ status: 404, json: {} }, instance('pending'), instance('running')],
    });
    await using provider = providerOf(server);
    await using environment = await provider.create(environmentRequest());
    expect(environment.id).toBe('i-1');
    expect(server.calls().filter((call) => call === 'GET /v1/env/instances/i-1')).toHaveLength(3);
  });

  it.each(['error', 'stopped'])('is deleted, and infra, when it comes as %s', async (status) => {
    await using server = await service({ create: [instance(status)] });
    await using provider = providerOf(server);
    const failure = await failureOf(provider.create(environmentRequest()));
    expect(failure).toMatchObject({ class: 'infra', code: 'environment_failed', retryable: true });
    expect(failure.message).toContain(`its status is ${status}`);
    expect(deletions(server)).toEqual(['DELETE /v1/env/instances/i-1']);
  });

  it('is deleted when it does not run in time', async () => {
    await using server = await service({ create: [instance('pending')], get: [instance('pending')] });
    await using provider = providerOf(server);
    const failure = await failureOf(provider.create(environmentRequest({}, { boot_seconds: 0.2 })));
    expect(failure).toMatchObject({ class: 'infra', code: 'boot_timeout' });
    expect(deletions(server)).toEqual(['DELETE /v1/env/instances/i-1']);
  });

  it('is deleted when the creation is aborted while it starts', async () => {
    await using server = await service({ create: [instance('pending')], get: [instance('pending')] });
    await using provider = providerOf(server);
    const stop = new AbortController();
    const creating = provider.create(environmentRequest({}, { signal: stop.signal }));
    creating.catch(() => undefined);
    await until(() => server.calls().some((call) => call.startsWith('GET')), 'it was looked at');
    stop.abort(new Error('cancelled'));
    await expect(creating).rejects.toThrow('cancelled');
    expect(deletions(server)).toEqual(['DELETE /v1/env/instances/i-1']);
  });

  it('is swept by its run id when the answer of its creation cannot be read', async () => {
    await using server = await service({ create: [{ text: '<html>hello</html>' }] });
    await using provider = providerOf(server);
    const request = environmentRequest();
    const failure = await failureOf(provider.create(request));
    expect(failure).toMatchObject({ class: 'infra', code: 'create_failed', retryable: true });
    const sweep = server.seen.find(({ method }) => method === 'DELETE')!;
    expect(new URLSearchParams(sweep.url.split('?')[1]).get('run_id')).toBe(server.seen[0]!.body.run_id);
  });

  it('is created with its time to live, a heartbeat, and less time than the call has', async () => {
    await using server = await service({ create: [instance('running')] });
    await using provider = providerOf(server);
    await using environment = await provider.create(environmentRequest({}, { boot_seconds: 180 }));
    expect(environment.provider).toBe('fleet');
    expect(server.seen[0]!.body).toMatchObject({
      ttl_seconds: 600,
      heartbeat_interval: 300,
      created_from: 'sdk',
    });
    expect(server.seen[0]!.body.max_wait_seconds).toBeLessThanOrEqual(162);
  });

  it('beats until it is deleted, through answers that fail', async () => {
    await using server = await service({
      create: [instance('running')],
      heartbeat: [
        { json: { success: true } },
        { status: 400, json: { detail: 'no' } },
        { json: { success: true } },
      ],
    });
    await using provider = providerOf(server, { heartbeatEvery: 15 });
    const environment = await provider.create(environmentRequest());
    const beats = (): number => server.calls().filter((call) => call.endsWith('/heartbeat')).length;
    await until(() => beats() >= 4, 'it beat four times');
    await environment[Symbol.asyncDispose]();
    const last = beats();
    await until(() => deletions(server).length === 1, 'it was deleted');
    expect(beats()).toBe(last);
  });

  it('is not taken for gone by a heartbeat alone: a service may know none', async () => {
    await using server = await service({
      create: [instance('running')],
      get: [instance('running')],
      heartbeat: [{ status: 404, json: { detail: 'Not Found' } }],
    });
    await using provider = providerOf(server, { heartbeatEvery: 15 });
    await using environment = await provider.create(environmentRequest());
    const beats = (): number => server.calls().filter((call) => call.endsWith('/heartbeat')).length;
    await until(() => beats() >= 3, 'it goes on beating');
    expect(await environment.state()).toBe('running');
  });

  it('is not taken for gone by one 404', async () => {
    await using server = await service({
      create: [instance('running')],
      get: [{ status: 404, json: { detail: 'Not Found' } }, instance('running')],
    });
    await using provider = providerOf(server);
    await using environment = await provider.create(environmentRequest());
    expect(await environment.state()).toBe('running');
  });

  it('is known to be gone when a heartbeat and a look at it say so', async () => {
    await using server = await service({
      create: [instance('running')],
      get: [{ status: 404, json: { detail: 'Instance not found' } }],
      heartbeat: [{ status: 404, json: { detail: 'Instance not found' } }],
    });
    await using provider = providerOf(server, { heartbeatEvery: 15 });
    await using environment = await provider.create(environmentRequest());
    await until(async () => (await environment.state()) === 'gone', 'a heartbeat was refused');
    const { signal } = new AbortController();
    const failure = await failureOf(environment.callTool('any', {}, { timeout_ms: 1_000, signal }));
    expect(failure).toMatchObject({ class: 'infra', code: 'environment_gone' });
  });

  it('counts as running while the service does not answer, and is asked once in a while', async () => {
    await using server = await service({
      create: [instance('running')],
      get: [{ status: 500, json: {} }],
    });
    await using provider = providerOf(server, { stateFresh: 60_000 });
    await using environment = await provider.create(environmentRequest());
    expect(await environment.state()).toBe('running');
    const asked = server.seen.length;
    expect(await environment.state()).toBe('running');
    expect(server.seen).toHaveLength(asked);
  });
});
