import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { type ReapFilter } from '../../src/contracts/index.ts';
import type { Environment, EnvironmentProvider, EnvironmentRequest } from '../../src/fleet/environment.ts';
import { FleetClient } from '../../src/fleet/api/index.ts';
import { createFleetProvider, type FleetProviderOptions } from '../../src/fleet/index.ts';
import { shippedEnvironments, startLocalFleet, type LocalFleet } from '../../src/local-fleet/index.ts';
import { until } from '../support/wait.ts';
import { environmentRequest, quick, recordingGate } from './creation-record.ts';
import { failureOf } from '../support/failure-of.ts';

const key = 'sk_provider-test';
let fleet: LocalFleet;
let events: string[] = [];

beforeAll(async () => {
  fleet = await startLocalFleet({ environments: await shippedEnvironments(), apiKey: key });
});
afterAll(async () => fleet[Symbol.asyncDispose]());
afterEach(() => {
  fleet.faults.clear();
  expect(fleet.instances(), 'an instance was left behind').toEqual([]);
});

function providerWith(options: Partial<FleetProviderOptions> = {}): EnvironmentProvider {
  const recorded = recordingGate();
  events = recorded.events;
  return createFleetProvider({
    baseUrl: fleet.url,
    apiKey: key,
    gate: recorded.gate,
    retry: { base_ms: 5, longest_ms: 20 },
    ...options,
    timings: { ...quick, ...options.timings },
  });
}

/** Creates with a provider of its own, looks, and deletes. */
async function withEnvironment(
  request: EnvironmentRequest,
  look: (environment: Environment) => Promise<void> | void,
): Promise<void> {
  await using provider = providerWith();
  await using environment = await provider.create(request);
  await look(environment);
}

const call = { timeout_ms: 20_000, signal: new AbortController().signal };

describe('creating a Fleet environment', () => {
  it('makes an instance that is named for its attempt, has tools, and is deleted in the end', async () => {
    const request = environmentRequest();
    await withEnvironment(request, async (environment) => {
      expect(fleet.instances()).toMatchObject([
        { instance_id: environment.id, run_id: `rp:{pool}:run-1:host-1-abc:600:${request.owner.nonce}` },
      ]);
      const tools = await environment.tools(call);
      expect(tools.length).toBeGreaterThan(0);
      expect(await environment.state()).toBe('running');
      const result = await environment.callTool('no_such_tool', {}, call);
      expect(result.is_error).toBe(true);
      expect(environment.metrics).toMatchObject({ environment_create_tries: 1, tools: tools.length });
      expect(environment.metrics['environment_create_ms']).toBeTypeOf('number');
    });
    expect(events).toEqual(['enter', 'passed']);
    expect(fleet.sessions()).toBe(0);
  });

  it('tries again after a failure that passes', async () => {
    fleet.faults.add({ kind: 'create_transient', times: 2 });
    fleet.faults.add({ kind: 'create_transient', as: 'unavailable', times: 1 });
    await withEnvironment(environmentRequest(), (environment) => {
      expect(environment.metrics['environment_create_tries']).toBe(4);
    });
    expect(events).toEqual(['enter', 'left', 'enter', 'left', 'enter', 'left', 'enter', 'passed']);
  });

  it("gives up after five tries, with the server's own words", async () => {
    const fault = fleet.faults.add({ kind: 'create_transient', times: 'always' });
    await using provider = providerWith();
    const failure = await failureOf(provider.create(environmentRequest()));
    expect(failure).toMatchObject({ class: 'infra', phase: 'boot', code: 'create_failed', retryable: true });
    expect(failure.message).toContain('seed_placement_failed');
    expect(fault.hits).toBe(5);
  });

  it.each([
    ['create_burst', { kind: 'create_burst', times: 2, retry_after: 0.01 }, 'refused 10'],
    ['create_limit in words', { kind: 'create_limit', times: 2 }, 'refused null'],
    ['create_limit with numbers', { kind: 'create_limit', shape: 'error_type', times: 2 }, 'refused null'],
  ] as const)('waits at the gate, and counts no try, on %s', async (_name, fault, refused) => {
    fleet.faults.add(fault);
    await withEnvironment(environmentRequest({}, { boot_seconds: 20 }), (environment) => {
      expect(environment.metrics['environment_create_tries']).toBe(1);
      expect(environment.metrics['environment_wait_ms']).toBeGreaterThanOrEqual(20);
    });
    expect(events).toEqual(['enter', refused, 'enter', refused, 'enter', 'passed']);
  });

  it('gives up when no place comes free in time', async () => {
    fleet.faults.add({ kind: 'create_limit', times: 'always' });
    await using provider = providerWith();
    const failure = await failureOf(provider.create(environmentRequest({}, { wait_seconds: 0.3 })));
    expect(failure).toMatchObject({ class: 'infra', code: 'instance_limit', retryable: true });
    expect(failure.message).toContain('Instance limit reached');
  });

  it.each(['cut', 'gateway_timeout'] as const)(
    'removes what a creation made whose answer was lost (%s)',
    async (as) => {
      fleet.faults.add({ kind: 'create_lost', as, times: 2 });
      await withEnvironment(environmentRequest(), (environment) => {
        expect(fleet.instances().map(({ instance_id }) => instance_id)).toEqual([environment.id]);
        expect(environment.metrics['environment_create_tries']).toBe(3);
      });
    },
  );

  it.each([
    [{ env_key: 'atlantis' }, 'environment_unknown', 'atlantis'],
    [{ env_version: 'v99' }, 'version_unknown', 'v99'],
    [{ region: 'mars-1' }, 'region_unknown', 'mars-1'],
  ])('blames the task for %j', async (task, code, words) => {
    await using provider = providerWith();
    const failure = await failureOf(provider.create(environmentRequest(task)));
    expect(failure).toMatchObject({ class: 'task', phase: 'boot', code, retryable: false });
    expect(failure.message).toContain(words);
    expect(events).toEqual(['enter', 'left']);
  });

  it('does not try again with a key that is refused', async () => {
    await using provider = providerWith({ apiKey: 'sk_wrong' });
    const failure = await failureOf(provider.create(environmentRequest()));
    expect(failure).toMatchObject({ class: 'infra', code: 'fleet_auth', retryable: false });
    expect(failure.message).toContain('FLEET_API_KEY');
    expect(failure.message).not.toContain('sk_wrong');
  });

  it('deletes what an aborted creation makes, before it rejects', async () => {
    fleet.faults.add({ kind: 'create_slow', ms: 300 });
    await using provider = providerWith();
    const stop = new AbortController();
    const reason = new Error('cancelled');
    const creating = provider.create(environmentRequest({}, { signal: stop.signal }));
    creating.catch(() => undefined);
    await until(() => events.includes('enter'), 'the creation was let through');
    stop.abort(reason);
    await expect(creating).rejects.toBe(reason);
    expect(fleet.instances()).toEqual([]);
    expect(events).toEqual(['enter', 'passed']);
  });

  it('ends in the middle of a wait at the gate when it is aborted', async () => {
    fleet.faults.add({ kind: 'create_burst', times: 'always' });
    const recorded = recordingGate(20_000);
    await using provider = providerWith({ gate: recorded.gate });
    const stop = new AbortController();
    const creating = provider.create(environmentRequest({}, { signal: stop.signal }));
    creating.catch(() => undefined);
    await until(() => recorded.events.length === 2, 'the creation was refused');
    stop.abort(new Error('cancelled'));
    await expect(creating).rejects.toThrow('cancelled');
  });

  it('sweeps later what the service finishes after the boot was over', async () => {
    fleet.faults.add({ kind: 'create_slow', ms: 600 });
    await using provider = providerWith({ timings: { sweepAgain: [2_000, 2_000, 4_000] } });
    const failure = await failureOf(provider.create(environmentRequest({}, { boot_seconds: 0.2 })));
    expect(failure).toMatchObject({ class: 'infra', code: 'boot_timeout', retryable: true });
    await until(() => fleet.instances().length === 1, 'the service has finished it');
    await until(() => fleet.instances().length === 0, 'it was swept');
  });
});

describe('a Fleet environment', () => {
  it('says that it is gone when the service has ended it', async () => {
    await withEnvironment(environmentRequest(), async (environment) => {
      const [tool] = await environment.tools(call);
      fleet.faults.add({ kind: 'instance_gone', instance: environment.id });
      const failure = await failureOf(environment.callTool(tool!.function.name, {}, call));
      expect(failure).toMatchObject({ class: 'infra', code: 'environment_gone', retryable: true });
      expect(await environment.state()).toBe('gone');
      expect(await failureOf(environment.callTool(tool!.function.name, {}, call))).toMatchObject({
        code: 'environment_gone',
      });
    });
  });

  it('is asked for anew after a verifier that failed', async () => {
    await using provider = providerWith({ timings: { stateFresh: 60_000 } });
    await using client = new FleetClient({ baseUrl: fleet.url, apiKey: key });
    await using environment = await provider.create(
      environmentRequest({ verifier_code: 'def verify(env):\n    return 1\n' }),
    );
    expect(await environment.state()).toBe('running');
    await client.deleteInstance(environment.id);
    const graded = { final_answer: null, conversation: [], timeout_seconds: 30, signal: call.signal };
    expect(await environment.verify(graded)).toMatchObject({ success: false });
    expect(await environment.state()).toBe('gone');
  });

  it('takes an end that came before its deletion for deleted', async () => {
    fleet.faults.add({ kind: 'delete_missing' });
    await withEnvironment(environmentRequest(), () => undefined);
  });

  it('is deleted by a second try when the first one fails', async () => {
    const fault = fleet.faults.add({ kind: 'delete_error', times: 2 });
    await withEnvironment(environmentRequest(), () => undefined);
    expect(fault.hits).toBe(2);
  });

  it('never rejects its deletion, and what is left is swept later', async () => {
    fleet.faults.add({ kind: 'delete_error', times: 'always' });
    await using provider = providerWith();
    const environment = await provider.create(environmentRequest());
    await environment[Symbol.asyncDispose]();
    await environment[Symbol.asyncDispose]();
    await until(() => fleet.instances().length === 0, 'it was swept');
  });

  it('is deleted with its provider when nobody has deleted it', async () => {
    await using provider = providerWith();
    await provider.create(environmentRequest());
    expect(fleet.instances()).toHaveLength(1);
  });
});

describe('the Fleet provider', () => {
  it('probes its service, and says what to set where it cannot work', async () => {
    await using provider = providerWith();
    await provider.probe();
    await using wrong = providerWith({ apiKey: 'sk_wrong' });
    const refused = await failureOf(wrong.probe());
    expect(refused).toMatchObject({ class: 'infra', code: 'fleet_auth', retryable: false });
    expect(refused.message).toMatch(/^FLEET_API_KEY is not accepted/);
    await using nowhere = providerWith({ baseUrl: 'http://127.0.0.1:9' });
    const away = await failureOf(nowhere.probe());
    expect(away).toMatchObject({ class: 'infra', code: 'fleet_unreachable' });
    expect(away.message).toContain('http://127.0.0.1:9');
  });

  it('reaps what a dead worker left, and nothing else', async () => {
    await using provider = providerWith();
    await using client = new FleetClient({ baseUrl: fleet.url, apiKey: key });
    const create = async (owner: Partial<EnvironmentRequest['owner']>): Promise<Environment> => {
      const request = environmentRequest();
      return provider.create({ ...request, owner: { ...request.owner, ...owner } });
    };
    const stranger = await client.createInstance(
      { env_key: 'bike-workshop', run_id: 'job-1' },
      { region: null },
    );
    await using dead = await create({ worker: 'dead-1-a' });
    await using alive = await create({ worker: 'live-1-a' });
    await using other = await create({ worker: 'dead-1-a', pool: 'other' });
    await using anotherRun = await create({ worker: 'dead-1-a', run_id: 'run-2' });
    const filter: ReapFilter = {
      pool: '{pool}',
      run_id: 'run-1',
      isDead: (worker) => worker.startsWith('dead'),
    };
    expect(await provider.reap(filter)).toEqual({
      removed: [dead.id],
      kept: [{ id: alive.id, why: 'its worker live-1-a is alive' }],
    });
    const left = fleet.instances().map(({ instance_id }) => instance_id);
    expect(new Set(left)).toEqual(new Set([stranger.instance_id, alive.id, other.id, anotherRun.id]));
    expect(await dead.state()).toBe('gone');
    await client.deleteInstance(stranger.instance_id);
  });

  it('keeps in its report what it could not remove', async () => {
    await using provider = providerWith();
    await using environment = await provider.create(environmentRequest());
    const fault = fleet.faults.add({ kind: 'delete_error', times: 'always' });
    const report = await provider.reap({ isDead: () => true });
    expect(report.removed).toEqual([]);
    expect(report.kept).toMatchObject([
      { id: environment.id, why: expect.stringContaining('500') as string },
    ]);
    fault.remove();
  });
});
