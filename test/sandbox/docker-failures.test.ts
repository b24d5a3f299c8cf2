import { spawn } from 'node:child_process';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pack } from 'tar-stream';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { createSandboxProvider, type SandboxProvider } from '../../src/sandbox/index.ts';
import { until } from '../support/wait.ts';
import { docker, haveDocker, testImage } from './docker-daemon.ts';
import { openGateway, requestOf, testPool } from './fixture.ts';

const bareImage = `rollpool-test-bare:${process.pid}`;

async function ours(): Promise<string[]> {
  const found = await docker.listContainers({
    all: true,
    filters: { label: [`io.rollpool.pool=${testPool}`] },
  });
  return found.map(({ State }) => State);
}

test('says in one line that there is no Docker daemon', async () => {
  await using provider = createSandboxProvider('docker', { dockerHost: 'unix:///nonexistent/docker.sock' });
  const failure = { class: 'infra', code: 'docker_unreachable', retryable: true };
  await expect(provider.probe()).rejects.toMatchObject({
    failure,
    message: expect.stringMatching(
      /^no Docker daemon answers at unix:\/\/\/nonexistent\/docker.sock: .*DOCKER_HOST.*$/,
    ),
  });
  await expect(provider.create(requestOf('/nonexistent'))).rejects.toMatchObject({ failure });
});

describe.runIf(haveDocker)('what a docker sandbox cannot be made of', () => {
  let gateway: Awaited<ReturnType<typeof openGateway>>;
  let provider: SandboxProvider;
  const fault = async (overrides: Parameters<typeof requestOf>[1]): Promise<unknown> =>
    provider.create(requestOf(gateway.directory, overrides)).then(
      async (sandbox) => sandbox[Symbol.asyncDispose](),
      (error: unknown) => error,
    );

  beforeAll(async () => {
    gateway = await openGateway();
    provider = createSandboxProvider('docker');
    const tar = pack();
    tar.entry({ name: 'etc/hostname' }, 'bare');
    tar.finalize();
    await new Promise<void>((resolve, reject) => {
      docker.importImage(
        tar as never,
        { repo: bareImage.split(':')[0], tag: bareImage.split(':')[1] },
        (error, stream) => {
          if (error || stream === undefined) return reject(error as Error);
          stream.resume();
          stream.on('end', resolve);
        },
      );
    });
  });
  afterAll(async () => {
    expect(await ours()).toEqual([]);
    await docker.getImage(bareImage).remove();
    await provider[Symbol.asyncDispose]();
    await gateway[Symbol.asyncDispose]();
  });

  test.each([
    ['a name that is none', { image: 'Not A Name' }, 'image_missing', '"Not A Name"'],
    ['an image without bash', { image: bareImage }, 'no_bash', bareImage],
    ['a working directory that is the root', { workdir: '/' }, 'bad_workdir', 'sandbox.workdir'],
  ] as const)('%s is the task’s fault', async (_what, spec, code, words) => {
    expect(await fault({ spec: spec })).toMatchObject({
      failure: { class: 'task', phase: 'boot', code, retryable: false },
      message: expect.stringContaining(words),
    });
  });

  test('a gateway directory the daemon cannot see is ours', async () => {
    const failure = { class: 'infra', phase: 'boot' };
    await expect(provider.create(requestOf('/nonexistent/gw'))).rejects.toMatchObject({
      failure: { ...failure, code: 'mount_missing' },
      message: expect.stringContaining('DOCKER_HOST'),
    });
    const empty = await mkdtemp(join(tmpdir(), `rp-empty-${process.pid}-`));
    await expect(provider.create(requestOf(empty))).rejects.toMatchObject({
      failure: { ...failure, code: 'socket_mount_unsupported' },
      message: expect.stringContaining('DOCKER_HOST'),
    });
    await rm(empty, { recursive: true });
  });

  test('an episode cancelled while its container is made leaves none', async () => {
    for (const delay of [1, 20, 60, 120, 200, 300]) {
      const controller = new AbortController();
      const timer = setTimeout(() => controller.abort(new Error('cancelled by test')), delay);
      const made = await fault({ signal: controller.signal });
      clearTimeout(timer);
      if (made !== undefined) expect(made).toEqual(new Error('cancelled by test'));
    }
    await until(async () => (await ours()).length === 0, 'no container is left');
  });

  test('uses a directory of the image as it is, and gives it to the agent', async () => {
    await using sandbox = await provider.create(requestOf(gateway.directory, { spec: { workdir: '/srv' } }));
    expect(
      (await sandbox.exec('touch x && stat -c %U . x', { user: 'agent', timeout_ms: 30_000 })).stdout,
    ).toBe('agent\nagent\n');
  });

  test('works where the working directory is below /tmp, and says that /tmp itself is out of reach otherwise', async () => {
    await using inTmp = await provider.create(
      requestOf(gateway.directory, { spec: { workdir: '/tmp/work' } }),
    );
    await inTmp.upload({ a: 'x' });
    expect((await inTmp.exec('cat a; touch /tmp/b', { user: 'agent', timeout_ms: 30_000 })).stdout).toBe('x');
    expect((await inTmp.read('/tmp/work/a', 10))?.length).toBe(1);
    await using usual = await provider.create(requestOf(gateway.directory));
    await expect(usual.upload({ a: 'x' }, { base: '/tmp/y' })).rejects.toThrow('/tmp');
  });

  test('a container ends by itself when its worker is killed, and a sweep removes it', async () => {
    const script = `
      import { createSandboxProvider } from './src/sandbox/index.ts';
      const provider = createSandboxProvider('docker');
      const request = JSON.parse(process.argv[1]);
      const sandbox = await provider.create({ ...request, signal: new AbortController().signal });
      await sandbox.exec('(setsid sleep 300 >/dev/null 2>&1 &)', { user: 'agent', timeout_ms: 30000 });
      console.log('made');
      setInterval(() => {}, 1000);`;
    const { signal: _signal, ...request } = requestOf(gateway.directory, {
      owner: { worker: 'worker-killed' },
    });
    const worker = spawn(
      process.execPath,
      ['--import', 'tsx', '--input-type=module', '-e', script, JSON.stringify(request)],
      {
        stdio: ['ignore', 'pipe', 'inherit'],
      },
    );
    const gone = new Promise((resolve) => worker.once('exit', resolve));
    await new Promise((resolve) => worker.stdout.once('data', resolve));
    expect(await ours()).toEqual(['running']);
    worker.kill('SIGKILL');
    await gone;
    await until(async () => (await ours())[0] === 'exited', 'the container ended');
    const report = await provider.reap({ pool: testPool, isDead: (name) => name === 'worker-killed' });
    expect(report.removed).toHaveLength(1);
    expect(await ours()).toEqual([]);
  });

  test('a command whose container is removed under it is infra', async () => {
    const sandbox = await provider.create(requestOf(gateway.directory));
    const running = sandbox.exec('echo up; sleep 300', { user: 'agent', timeout_ms: 60_000 });
    running.catch(() => undefined);
    await until(async () => {
      const top = (await docker.getContainer(sandbox.id).top()) as { Processes: string[][] };
      return top.Processes.some((row) => row.join(' ').includes('sleep 300'));
    }, 'it runs');
    await docker.getContainer(sandbox.id).remove({ force: true });
    await expect(running).rejects.toMatchObject({ failure: { class: 'infra', code: 'sandbox_gone' } });
    await sandbox[Symbol.asyncDispose]();
  });

  test('sixteen can be made at once', async () => {
    const made = await Promise.all(
      Array.from({ length: 16 }, () =>
        provider.create(requestOf(gateway.directory, { spec: { memory_mb: 64 } })),
      ),
    );
    const answers = await Promise.all(made.map((sandbox) => sandbox.exec('echo up', { timeout_ms: 60_000 })));
    expect(answers.map(({ stdout }) => stdout)).toEqual(made.map(() => 'up\n'));
    await Promise.all(made.map((sandbox) => sandbox[Symbol.asyncDispose]()));
  });

  test('leaves alone what has no label of ours', async () => {
    const stranger = await docker.createContainer({
      Image: testImage,
      Cmd: ['true'],
      Labels: { 'io.rollpool.pool': testPool },
    });
    try {
      expect((await provider.reap({ pool: testPool, isDead: () => true, all: true })).removed).toEqual([]);
      await stranger.inspect();
    } finally {
      await stranger.remove({ force: true });
    }
  });
});
