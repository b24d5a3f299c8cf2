import { mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { createSandboxProvider } from '../../src/sandbox/index.ts';
import type { PreparedSandbox, PrepareRequest, Sandbox, SandboxProvider } from '../../src/sandbox/sandbox.ts';
import { until } from '../support/wait.ts';
import { docker, haveDocker } from './docker-daemon.ts';
import { greeting, openGateway, ownerOf, requestOf, testPool } from './fixture.ts';

const greet = `python3 -c 'import socket, sys
s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1]); print(s.recv(100).decode(), end="")' /gw/gw.sock`;

describe.runIf(haveDocker)('a docker sandbox that waits for its episode', () => {
  let gateway: Awaited<ReturnType<typeof openGateway>>;
  let directory: string;
  let provider: SandboxProvider;
  const { signal } = new AbortController();

  function prepare(overrides: Partial<PrepareRequest> = {}): Promise<PreparedSandbox> {
    const { gateway_dir: _none, ...request } = requestOf('');
    const owner = ownerOf({ run_id: 'warm', episode_id: 'warm' });
    return provider.prepare!({ ...request, owner, ...overrides });
  }
  const hello = async (sandbox: Sandbox): Promise<string> =>
    (await sandbox.exec(greet, { user: 'agent', timeout_ms: 30_000 })).stdout;

  beforeAll(async () => {
    gateway = await openGateway();
    directory = await mkdtemp(join(tmpdir(), `rp-ready-${process.pid}-`));
    provider = createSandboxProvider('docker', { runtimeDirectory: directory });
  });
  afterAll(async () => {
    const left = await docker.listContainers({
      all: true,
      filters: { label: [`io.rollpool.pool=${testPool}`] },
    });
    expect(left).toEqual([]);
    expect(await readdir(directory)).toEqual([]);
    await provider[Symbol.asyncDispose]();
    await gateway[Symbol.asyncDispose]();
    await rm(directory, { recursive: true });
  });

  test('reaches the gateway of its episode from then on, and at once', async () => {
    const prepared = await prepare();
    expect(await prepared.check(1_000)).toBe(true);
    expect((await prepared.sandbox.exec('ls -A /gw', { user: 'agent', timeout_ms: 30_000 })).stdout).toBe('');
    const startedAt = performance.now();
    expect(await prepared.check(1_000)).toBe(true);
    await using sandbox = await prepared.assign({ gateway_dir: gateway.directory, ttl_seconds: 60, signal });
    expect(performance.now() - startedAt).toBeLessThan(500);
    expect(sandbox).toBe(prepared.sandbox);
    expect(await hello(sandbox)).toBe(greeting);
    const planted = await sandbox.exec('rm -f /gw/gw.sock; touch /gw/x', { timeout_ms: 30_000 });
    expect(planted.exit_code).not.toBe(0);
    await expect(
      prepared.assign({ gateway_dir: gateway.directory, ttl_seconds: 60, signal }),
    ).rejects.toThrow('before');
    // It is the episode's now: whoever made it ahead does not end it.
    await prepared[Symbol.asyncDispose]();
    expect(await sandbox.state()).toBe('running');
  });

  test('begins its time to live anew', async () => {
    const prepared = await prepare({ ttl_seconds: 600 });
    const sandbox = await prepared.assign({ gateway_dir: gateway.directory, ttl_seconds: 1, signal });
    await until(async () => (await sandbox.state()) === 'gone', 'its new time is up');
    await sandbox[Symbol.asyncDispose]();
  });

  test('is found to be broken when it is gone, and one that nobody took is removed', async () => {
    const prepared = await prepare();
    await docker.getContainer(prepared.id).remove({ force: true });
    await until(async () => !(await prepared.check(1_000)), 'the loss is seen');
    await prepared[Symbol.asyncDispose]();
    const unused = await prepare();
    await unused[Symbol.asyncDispose]();
    expect(await unused.check(1_000)).toBe(false);
    await expect(docker.getContainer(unused.id).inspect()).rejects.toMatchObject({ statusCode: 404 });
  });

  test('is removed when its episode cannot have it', async () => {
    const failure = { class: 'infra', phase: 'boot' };
    const absent = join(directory, 'absent');
    await expect(
      (await prepare()).assign({ gateway_dir: absent, ttl_seconds: 60, signal }),
    ).rejects.toMatchObject({ failure: { ...failure, code: 'socket_link_failed' } });
    await expect(
      (await prepare()).assign({
        gateway_dir: gateway.directory,
        ttl_seconds: 60,
        signal: AbortSignal.abort(new Error('cancelled by test')),
      }),
    ).rejects.toThrow('cancelled by test');
    const lost = await prepare();
    await docker.getContainer(lost.id).remove({ force: true });
    await expect(
      lost.assign({ gateway_dir: gateway.directory, ttl_seconds: 60, signal }),
    ).rejects.toMatchObject({ failure: { ...failure, code: 'sandbox_gone' } });
  });

  test('is swept by its worker and its expiry, before and after it was taken', async () => {
    const waiting = await prepare();
    const taken = await prepare({ ttl_seconds: 1 });
    await taken.assign({ gateway_dir: gateway.directory, ttl_seconds: 600, signal });
    const { Labels } = (await docker.getContainer(taken.id).inspect()).Config;
    expect(Labels).toMatchObject({ 'io.rollpool.worker': 'worker-a', 'io.rollpool.run': 'warm' });
    await until(() => Date.now() > Number(Labels['io.rollpool.expires']), 'its label says that it expired');
    const kept = await provider.reap({ pool: testPool, isDead: () => false });
    expect(kept.removed).toEqual([]);
    expect(kept.kept.map(({ id }) => id).toSorted()).toEqual([waiting.id, taken.id].toSorted());
    const swept = await provider.reap({ pool: testPool, isDead: (worker) => worker === 'worker-a' });
    expect(swept.removed.toSorted()).toEqual([waiting.id, taken.id].toSorted());
    await waiting[Symbol.asyncDispose]();
    await taken.sandbox[Symbol.asyncDispose]();
  });
});
