import { RateLimitError, Sandbox, ServiceBusyError } from 'e2b';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { haveDocker } from '../sandbox/docker-daemon.ts';
import { until } from '../support/wait.ts';
import { clientOf, createSandbox, errorOf } from './fixture.ts';
import { openE2bDouble, type E2bDouble } from './open-e2b-double.ts';

describe.skipIf(!haveDocker)('faults of the double, as the SDK meets them', () => {
  let double: E2bDouble;
  let sandbox: Sandbox;

  beforeAll(async () => {
    double = await openE2bDouble({ maxSandboxes: 3 });
    sandbox = await createSandbox(double);
  });

  afterEach(() => double.clearFaults());

  afterAll(async () => {
    await double[Symbol.asyncDispose]();
  });

  test('without a Retry-After a 429 is told at once; with one the SDK tries again by itself', async () => {
    const before = double.calls('create');
    double.fault({ kind: 'refuse', call: 'create', status: 429, times: 1 });
    const error = await errorOf(createSandbox(double));
    expect(error).toBeInstanceOf(RateLimitError);
    expect(double.calls('create') - before).toBe(1);
    double.fault({ kind: 'refuse', call: 'create', status: 429, retry_after_s: 0, times: 2 });
    await (await createSandbox(double)).kill();
    expect(double.calls('create') - before).toBe(4);
  });

  test('no more sandboxes at once than the limit; a paused one takes no place', async () => {
    const made = await Promise.allSettled([1, 2, 3].map(() => createSandbox(double)));
    const fine = made.flatMap((one) => (one.status === 'fulfilled' ? [one.value] : []));
    expect(fine).toHaveLength(2);
    expect(double.peak()).toBe(3);
    expect((await errorOf(createSandbox(double))).message).toContain('maximum number of concurrent');
    await fine[0]!.pause();
    await (await createSandbox(double)).kill();
    await Promise.all(fine.map((one) => one.kill()));
  });

  test('creations a second are limited, with the wait in Retry-After', async () => {
    await using slow = await openE2bDouble({ createsPerSecond: 1 });
    const headers = { 'x-api-key': slow.apiKey };
    const asked = (): Promise<Response> =>
      fetch(`${slow.apiUrl}/v2/sandboxes`, { method: 'POST', headers, body: '{"templateID":"base"}' });
    const answers = await Promise.all([asked(), asked()]);
    expect(answers.map(({ status }) => status).toSorted()).toEqual([201, 429]);
    const refused = answers.find(({ status }) => status === 429)!;
    expect(refused.headers.get('retry-after')).toBe('1');
    await Promise.all(answers.map((answer) => answer.text()));
  });

  test('503, 500 and 504 come with their code, and nothing is made', async () => {
    const before = double.made.length;
    double.fault({
      kind: 'refuse',
      call: 'create',
      status: 503,
      error_code: 'sandbox_capacity_unavailable',
      times: 1,
    });
    expect(await errorOf(createSandbox(double))).toBeInstanceOf(ServiceBusyError);
    for (const status of [500, 504]) {
      double.fault({ kind: 'refuse', call: 'create', status, message: 'Failed to place sandbox', times: 1 });
      expect(await errorOf(createSandbox(double))).toMatchObject({ statusCode: status });
    }
    expect(double.made.length).toBe(before);
  });

  test('a creation that is lost leaves a sandbox that its client knows nothing of', async () => {
    double.fault({ kind: 'lose', call: 'create', times: 1 });
    const lost = await errorOf(createSandbox(double, { requestTimeoutMs: 1_500, metadata: { lost: 'yes' } }));
    expect(lost.name).toBe('TimeoutError');
    const found = await until(async () => {
      const page = await Sandbox.list({
        ...clientOf(double),
        query: { metadata: { lost: 'yes' } },
      }).nextItems();
      return page[0];
    }, 'the lost sandbox is listed');
    expect(await Sandbox.kill(found.sandboxId, clientOf(double))).toBe(true);
  });

  test('a stream is cut without an end event, and the command runs on', async () => {
    double.fault({ kind: 'cut_stream', after_bytes: 400, command: 'counting', times: 1 });
    const command = 'echo counting; for i in {1..50}; do echo $i; sleep 0.01; done; touch done; read x';
    const handle = await sandbox.commands.run(command, { background: true, stdin: true });
    const error = await errorOf(handle.wait());
    expect(error.name).toBe('SandboxError');
    await until(() => sandbox.files.exists('done'), 'the command has gone on');
    double.fault({ kind: 'cut_stream', after_ms: 50, times: 1 });
    const back = await sandbox.commands.connect(handle.pid, { timeoutMs: 0 });
    await errorOf(back.wait());
    const last = await sandbox.commands.connect(handle.pid);
    await last.closeStdin();
    await errorOf(last.wait());
  });

  test('a stream that hangs stays open and says nothing', async () => {
    double.fault({ kind: 'hang_stream', after_bytes: 60, times: 1 });
    const error = await errorOf(sandbox.commands.run('echo quick', { timeoutMs: 400 }));
    expect(error.name).toBe('TimeoutError');
  });

  test('envd answers 502 as often as it is told to', async () => {
    double.fault({ kind: 'refuse', call: 'envd', status: 502, times: 1 });
    expect(await sandbox.isRunning()).toBe(false);
    expect(await sandbox.isRunning()).toBe(true);
  });

  test('a sandbox vanishes by order or after a while', async () => {
    const one = await createSandbox(double);
    await double.evict(one.sandboxId);
    expect(await one.isRunning()).toBe(false);
    double.fault({ kind: 'evict', after_ms: 200, times: 1 });
    const two = await createSandbox(double);
    expect((await errorOf(two.commands.run('sleep 60', { timeoutMs: 0 }))).name).toBe('TimeoutError');
  });

  test('commands of a bad template hang, and its files work', async () => {
    double.fault({ kind: 'hang_commands', times: 1 });
    const bad = await createSandbox(double);
    expect((await errorOf(bad.commands.run('true', { requestTimeoutMs: 300 }))).name).toBe('TimeoutError');
    await bad.files.write('x', 'y');
    await bad.kill();
  });

  test('a kill and a list fail when told, after as many that pass', async () => {
    double.fault({ kind: 'refuse', call: 'kill', status: 500, times: 1, sandbox_id: sandbox.sandboxId });
    double.fault({ kind: 'refuse', call: 'list', status: 500, after: 1, times: 1 });
    const list = () => Sandbox.list(clientOf(double)).nextItems();
    expect(await list()).toHaveLength(1);
    expect(await errorOf(list())).toMatchObject({ statusCode: 500 });
    expect(await errorOf(sandbox.kill())).toMatchObject({ statusCode: 500 });
    expect(await sandbox.kill()).toBe(true);
  });
});
