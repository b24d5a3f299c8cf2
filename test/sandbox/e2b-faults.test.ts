import { once } from 'node:events';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import type { Sandbox } from '../../src/sandbox/index.ts';
import type { E2bProvider } from '../../src/sandbox/e2b/e2b-provider.ts';
import { until } from '../support/wait.ts';
import { haveDocker } from './docker-daemon.ts';
import { notingGate, openE2bDouble, providerOf, type E2bDouble } from './e2b-scene.ts';
import { openGateway, reapFilter, requestOf } from './fixture.ts';

const hand = 'hand.py connect';

describe.runIf(haveDocker)('an E2B service that fails', { timeout: 120_000 }, () => {
  let double: E2bDouble;
  let gateway: Awaited<ReturnType<typeof openGateway>>;
  let provider: E2bProvider;
  let sandbox: Sandbox;

  beforeAll(async () => {
    double = await openE2bDouble();
    gateway = await openGateway();
    provider = providerOf(double, { timings: { ping: 200, silence: 400, renewAfter: 300_000 } });
    sandbox = await provider.create(requestOf(gateway.directory));
  });
  afterEach(() => double.clearFaults());
  afterAll(async () => {
    await sandbox[Symbol.asyncDispose]();
    await provider[Symbol.asyncDispose]();
    expect(double.sandboxes()).toEqual([]);
    await gateway[Symbol.asyncDispose]();
    await double[Symbol.asyncDispose]();
  });
  /** Starts none of the double's, and gives the failure. */
  const refused = async (
    options: Parameters<typeof providerOf>[1] = {},
    request: Parameters<typeof requestOf>[1] = {},
  ): Promise<unknown> => {
    await using own = providerOf(double, options);
    return await own.create(requestOf(gateway.directory, request)).catch((error: unknown) => error);
  };

  const numbers = 'for ((i = 0; i < 60000; i++)); do echo $i; done; exit 3';
  const expected = Array.from({ length: 60_000 }, (_none, index) => `${index}\n`).join('');

  /** Reads a process whole, and gives what it wrote. */
  async function played(command: string): Promise<{ text: string; code: number | null }> {
    await using running = await sandbox.spawn(command, { user: 'agent' });
    running.stderr.resume();
    let text = '';
    running.stdout.setEncoding('utf8').on('data', (chunk: string) => (text += chunk));
    await once(running.stdout, 'end');
    return { text, code: await running.exited };
  }

  test.each([
    [
      'whose line is cut again and again',
      { kind: 'cut_stream', command: hand, after_bytes: 40_000, times: 5 },
    ],
    ['whose line falls silent', { kind: 'hang_stream', command: hand, after_bytes: 60_000, times: 1 }],
    [
      'whose sandbox is out of reach for a while',
      { kind: 'refuse', call: 'envd', status: 502, after: 2, times: 4 },
    ],
    ['that grows past what one line may carry', null],
  ] as const)('loses and repeats no byte of a command %s', async (_name, fault) => {
    if (fault !== null) {
      double.fault(fault);
      // The line that stands was opened before the fault: it is to be opened anew.
      double.fault({ kind: 'refuse', call: 'envd', status: 502, times: 1 });
    }
    expect(await played(numbers)).toEqual({ text: expected, code: 3 });
  });

  test('delivers input whole over lines that are cut', async () => {
    double.fault({ kind: 'cut_stream', command: hand, after_ms: 50, times: 4 });
    double.fault({ kind: 'refuse', call: 'envd', status: 502, after: 3, times: 1 });
    const bytes = Buffer.alloc(2_000_000, 'abcdefghij');
    const found = await sandbox.exec('sha256sum; exit 7', { stdin: bytes, timeout_ms: 60_000 });
    const { createHash } = await import('node:crypto');
    expect(found.stdout).toBe(`${createHash('sha256').update(bytes).digest('hex')}  -\n`);
    expect(found.exit_code).toBe(7);
  });

  test('tells the gate how long it asked to wait, and counts that as no try', async () => {
    const gate = notingGate();
    await using own = providerOf(double, { gate });
    double.fault({ kind: 'refuse', call: 'create', status: 429, retry_after_s: 3, times: 1 });
    double.fault({
      kind: 'refuse',
      call: 'create',
      status: 429,
      message: 'maximum number of concurrent E2B sandboxes',
      times: 1,
    });
    double.fault({ kind: 'refuse', call: 'create', status: 503, times: 6 });
    await using made = await own.create(requestOf(gateway.directory, { gateway_dir: null }));
    expect(await made.state()).toBe('running');
    expect(gate.told).toEqual([3_000, null, null, null, null, null, null, null, 'passed']);
  });

  test('without a free place for too long is a failure of ours that may be tried again', async () => {
    double.fault({
      kind: 'refuse',
      call: 'create',
      status: 429,
      message: 'maximum number of concurrent sandboxes',
    });
    expect(await refused({}, { wait_seconds: 0.3 })).toMatchObject({
      failure: {
        class: 'infra',
        code: 'sandbox_limit',
        retryable: true,
        message: expect.stringContaining('concurrent'),
      },
    });
  });

  test('that does not take the key says so, and nobody tries again', async () => {
    const connection = {
      apiKey: 'e2b_wrong',
      apiUrl: double.apiUrl,
      sandboxUrl: double.sandboxUrl,
      domain: null,
    };
    const failure = { class: 'infra', code: 'e2b_key_refused', retryable: false };
    const error = await refused({ connection });
    expect(error).toMatchObject({ failure });
    expect(String(error)).not.toContain('e2b_wrong');
    await using own = providerOf(double, { connection });
    await expect(own.probe()).rejects.toMatchObject({ failure });
  });

  test('knows no such template: that is the task', async () => {
    expect(await refused({}, { spec: { template: 'nowhere' } })).toMatchObject({
      failure: { class: 'task', code: 'template_missing', message: expect.stringContaining('"nowhere"') },
    });
    expect(await refused({}, { spec: { image: 'debian' } })).toMatchObject({
      failure: {
        class: 'task',
        code: 'template_missing',
        message: expect.stringMatching(/^sandbox.image: /),
      },
    });
    expect(await refused({}, { spec: { network: { allow: ['example.com:8443'] } } })).toMatchObject({
      failure: { class: 'task', code: 'network_allow_unsupported' },
    });
  });

  test.each(['break', 'lose'] as const)(
    'makes a sandbox and does not say so (%s): it is found and killed',
    async (kind) => {
      const before = double.made.length;
      double.fault({ kind, call: 'create', times: 1 });
      const started = double.calls('create');
      await using own = providerOf(double);
      const making = own.create(
        requestOf(gateway.directory, { gateway_dir: null, boot_seconds: kind === 'lose' ? 3 : 60 }),
      );
      const made = await making.catch((error: unknown) => error);
      const lost = double.made[before]!;
      if (kind === 'break') {
        await (made as Sandbox)[Symbol.asyncDispose]();
        expect(double.calls('create') - started).toBe(2);
      } else expect(made).toMatchObject({ failure: { class: 'infra', code: 'boot_timeout' } });
      expect(double.sandboxes().map(({ id }) => id)).not.toContain(lost);
    },
  );

  test('and an episode that is cancelled while its sandbox is made leaves none', async () => {
    const before = double.sandboxes().length;
    double.fault({ kind: 'delay', call: 'create', ms: 300, times: 1 });
    await using own = providerOf(double);
    const asked = double.calls('create');
    const controller = new AbortController();
    const reason = new Error('cancelled by test');
    const making = own.create(requestOf(gateway.directory, { signal: controller.signal }));
    making.catch(() => undefined);
    await until(() => double.calls('create') > asked, 'it is being made');
    controller.abort(reason);
    await expect(making).rejects.toBe(reason);
    expect(double.sandboxes()).toHaveLength(before);
  });

  test('whose sandboxes run no commands is a failure of ours, and leaves none behind', async () => {
    const before = double.sandboxes().length;
    double.fault({ kind: 'hang_commands', times: 1 });
    expect(await refused({ timings: { start: 1_000 } })).toMatchObject({
      failure: { class: 'infra', code: 'boot_failed', phase: 'boot', retryable: true },
    });
    expect(double.sandboxes()).toHaveLength(before);
  });

  test('that takes a sandbox away in mid-command is noticed, and it is never an exit code', async () => {
    const doomed = await provider.create(requestOf(gateway.directory, { gateway_dir: null }));
    const process = await doomed.spawn(['sleep', '600'], { user: 'agent' });
    const waiting = doomed.exec('sleep 600', { timeout_ms: 600_000 });
    const gone = expect(waiting).rejects.toMatchObject({ failure: { class: 'infra', code: 'sandbox_gone' } });
    await double.evict(doomed.id);
    expect(await process.exited).toBeNull();
    await gone;
    expect(await doomed.state()).toBe('gone');
    // What is gone is dead: that is no failure.
    await doomed[Symbol.asyncDispose]();
  });

  test("that does not kill a sandbox is asked again; what stays is the reaper's", async () => {
    const stubborn = await provider.create(
      requestOf(gateway.directory, { gateway_dir: null, owner: { run_id: 'run-kill' } }),
    );
    double.fault({ kind: 'refuse', call: 'kill', status: 500, times: 2, sandbox_id: stubborn.id });
    await stubborn[Symbol.asyncDispose]();
    expect(double.sandboxes().map(({ id }) => id)).not.toContain(stubborn.id);
    expect(double.calls('kill')).toBeGreaterThan(2);
    const left = await provider.reap(reapFilter({ run_id: 'run-kill', all: true }));
    expect(left).toEqual({ removed: [], kept: [] });
  });

  test('gives less time than was asked for: that is kept to, and more is refused in clear words', async () => {
    await using own = providerOf(double);
    double.fault({
      kind: 'refuse',
      call: 'create',
      status: 400,
      message: 'Timeout cannot be greater than 1 hours',
      times: 1,
    });
    await using brief = await own.create(
      requestOf(gateway.directory, { gateway_dir: null, ttl_seconds: 7_200 }),
    );
    const view = double.sandboxes().find(({ id }) => id === brief.id)!;
    expect(view.ends_at - Date.now()).toBeLessThanOrEqual(3_600_000);
    await expect(brief.extend(60)).rejects.toMatchObject({
      failure: { code: 'e2b_lifetime', class: 'infra' },
    });
  });
});
