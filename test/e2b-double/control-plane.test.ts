import { Sandbox, SandboxError, Template } from 'e2b';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { docker, haveDocker } from '../sandbox/docker-daemon.ts';
import { until } from '../support/wait.ts';
import { clientOf, createSandbox, errorOf } from './fixture.ts';
import { openE2bDouble, type E2bDouble } from './open-e2b-double.ts';

describe.skipIf(!haveDocker)('the control plane of the double, by the SDK', () => {
  let double: E2bDouble;
  let a: Sandbox;
  let b: Sandbox;

  beforeAll(async () => {
    double = await openE2bDouble();
    [a, b] = await Promise.all([
      createSandbox(double, { metadata: { pool: 'p&1=ä', n: '1' } }),
      createSandbox(double, { metadata: { pool: 'p&1=ä', n: '2' } }),
    ]);
  });

  afterAll(async () => {
    await double[Symbol.asyncDispose]();
    const left = await docker.listContainers({ all: true, filters: { label: ['rollpool-test.e2b-double'] } });
    const ours = left.filter(({ Labels }) => double.made.includes(Labels['rollpool-test.e2b-double']!));
    expect(ours).toEqual([]);
  });

  test('a wrong key is refused', async () => {
    const error = await errorOf(Sandbox.create('base', { ...clientOf(double), apiKey: 'other' }));
    expect(error.name).toBe('AuthenticationError');
  });

  test('a template that is not there is a 404', async () => {
    const error = await errorOf(Sandbox.create('nothing-of-it', clientOf(double)));
    expect(error).toBeInstanceOf(SandboxError);
    expect(error).toMatchObject({ statusCode: 404 });
  });

  test('sandboxes are found by metadata, page by page', async () => {
    const pages = Sandbox.list({
      ...clientOf(double),
      limit: 1,
      query: { metadata: { pool: 'p&1=ä' }, state: ['running', 'paused'] },
    });
    const found: string[] = [];
    while (pages.hasNext) found.push(...(await pages.nextItems()).map(({ sandboxId }) => sandboxId));
    expect(found.toSorted()).toEqual([a.sandboxId, b.sandboxId].toSorted());
    const second = await Sandbox.list({
      ...clientOf(double),
      query: { metadata: { pool: 'p&1=ä', n: '2' } },
    }).nextItems();
    expect(second.map(({ sandboxId }) => sandboxId)).toEqual([b.sandboxId]);
    const none = await Sandbox.list({ ...clientOf(double), query: { metadata: { n: '3' } } }).nextItems();
    expect(none).toEqual([]);
  });

  test('the older paths are there too', async () => {
    const headers = { 'x-api-key': double.apiKey };
    const listed = (await (await fetch(`${double.apiUrl}/sandboxes`, { headers })).json()) as unknown[];
    expect(listed).toHaveLength(2);
    const connected = await fetch(`${double.apiUrl}/sandboxes/${a.sandboxId}/connect`, {
      method: 'POST',
      headers,
      body: '{"timeout":10}',
    });
    expect(await connected.json()).toMatchObject({ sandboxID: a.sandboxId, templateID: expect.anything() });
  });

  test('a timeout is set anew and told; connecting only ever extends it', async () => {
    await a.setTimeout(600_000);
    const left = async (): Promise<number> => (await a.getInfo()).endAt.getTime() - Date.now();
    expect(await left()).toBeGreaterThan(590_000);
    await Sandbox.connect(a.sandboxId, { ...clientOf(double), timeoutMs: 10_000 });
    expect(await left()).toBeGreaterThan(590_000);
    await a.setTimeout(300_000);
    expect(await left()).toBeLessThan(301_000);
    expect((await a.getInfo()).allowInternetAccess).toBe(false);
  });

  test('a paused sandbox answers nobody until it is connected to, and what ran runs on', async () => {
    const handle = await a.commands.run('read line; echo "$line"', { background: true, stdin: true });
    expect(await a.pause()).toBe(true);
    expect(await a.pause()).toBe(false);
    await errorOf(handle.wait());
    expect(await a.isRunning()).toBe(false);
    const again = await Sandbox.connect(a.sandboxId, clientOf(double));
    const back = await again.commands.connect(handle.pid);
    await back.sendStdin('still here\n');
    expect((await back.wait()).stdout).toBe('still here\n');
    expect(await a.pause({ keepMemory: false })).toBe(true);
    await Sandbox.connect(a.sandboxId, clientOf(double));
    expect(await a.commands.list()).toEqual([]);
  });

  test('a snapshot keeps the files; sandboxes are made from it until it is deleted', async () => {
    await a.files.write('kept.txt', 'kept');
    const { snapshotId, names } = await a.createSnapshot({ name: 'state-1' });
    expect(names).toEqual(['state-1']);
    expect(await a.commands.run('cat kept.txt')).toMatchObject({ stdout: 'kept' });
    const copy = await Sandbox.create(snapshotId, { ...clientOf(double), allowInternetAccess: false });
    expect(await copy.files.read('kept.txt')).toBe('kept');
    await copy.kill();
    const listed = await Sandbox.listSnapshots({ ...clientOf(double), name: 'state-1' }).nextItems();
    expect(listed).toEqual([{ snapshotId, names: ['state-1'] }]);
    expect(await Sandbox.deleteSnapshot(snapshotId, clientOf(double))).toBe(true);
    expect(await Sandbox.deleteSnapshot(snapshotId, clientOf(double))).toBe(false);
    expect(double.snapshots()).toEqual([]);
  });

  test('a killed sandbox is gone for everybody, its streams too', async () => {
    const handle = await b.commands.run('sleep 600', { background: true, timeoutMs: 0 });
    expect(await b.kill()).toBe(true);
    expect((await errorOf(handle.wait())).name).toBe('TimeoutError');
    expect(await b.kill()).toBe(false);
    expect((await errorOf(b.getInfo())).name).toBe('SandboxNotFoundError');
    expect((await errorOf(b.commands.run('true'))).name).toBe('SandboxNotFoundError');
  });

  test('a sandbox ends at its time', async () => {
    const short = await createSandbox(double, { timeoutMs: 1_000 });
    await until(async () => !(await short.isRunning()), 'the sandbox has ended');
    expect(double.sandboxes().some(({ id }) => id === short.sandboxId)).toBe(false);
  });

  test('a template is built with its files and can be used; a build that fails says where', async () => {
    const template = Template({ fileContextPath: import.meta.dirname })
      .fromNodeImage('24')
      .copy('wire.md', '/opt/wire.md')
      .runCmd('echo built');
    const log: string[] = [];
    const build = await Template.build(template, 'built-here:v1', {
      ...clientOf(double),
      cpuCount: 1,
      memoryMB: 1024,
      onBuildLogs: (entry) => log.push(entry.message),
    });
    expect(await Template.exists('built-here', clientOf(double))).toBe(true);
    expect(await Template.exists('not-built', clientOf(double))).toBe(false);
    expect(log.join('\n')).toMatch(/FROM node:24[^]*COPY[^]*RUN[^]*echo built/);
    expect(double.builds().at(-1)).toMatchObject({ templateID: build.templateId, memoryMB: 1024 });
    const made = await Sandbox.create('built-here', { ...clientOf(double), allowInternetAccess: false });
    expect((await made.getInfo()).memoryMB).toBe(1024);
    await made.kill();

    double.fault({ kind: 'fail_build', message: 'npm broke', step: '1', times: 1 });
    const error = await errorOf(Template.build(template, 'built-here', clientOf(double)));
    expect(error).toMatchObject({ name: 'BuildError', message: expect.stringContaining('npm broke') });
  });
});
