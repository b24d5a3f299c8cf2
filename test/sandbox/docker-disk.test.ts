import { access } from 'node:fs/promises';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { createSandboxProvider, type Sandbox, type SandboxProvider } from '../../src/sandbox/index.ts';
import { docker, haveDocker } from './docker-daemon.ts';
import { openGateway, requestOf } from './fixture.ts';

/** Writes 4 MB at a time for as long as it is let. */
const fill = (name: string): string =>
  `i=0; while :; do head -c 4M /dev/zero >${name}$i; i=$((i + 1)); sleep 0.05; done`;

describe.runIf(haveDocker)('an agent that fills its disk', () => {
  let gateway: Awaited<ReturnType<typeof openGateway>>;
  let provider: SandboxProvider;
  const create = (disk_mb?: number): Promise<Sandbox> =>
    provider.create(requestOf(gateway.directory, { spec: disk_mb === undefined ? {} : { disk_mb } }));

  beforeAll(async () => {
    gateway = await openGateway();
    provider = createSandboxProvider('docker', { diskMb: 64 });
  });
  afterAll(async () => {
    await provider[Symbol.asyncDispose]();
    await gateway[Symbol.asyncDispose]();
  });

  test('ends with all it started, its sandbox can still be graded, and nothing of it is left afterwards', async () => {
    const sandbox = await create();
    await using other = await create();
    const { GraphDriver } = await docker.getContainer(sandbox.id).inspect();
    const layer = (GraphDriver.Data as unknown as { UpperDir: string }).UpperDir;

    const beside = sandbox.spawn(`(setsid bash -c '${fill('b')}' &) ; sleep 300`, { user: 'agent' });
    const filling = await sandbox.exec(fill('a'), { user: 'agent', timeout_ms: 60_000 });
    expect(filling).toMatchObject({ exit_code: 137, timed_out: false });
    expect(await (await beside).exited).toBe(137);
    expect(await sandbox.state()).toBe('disk_full');
    await sandbox.killAgent(30_000);

    expect(await other.state()).toBe('running');
    expect((await other.exec('echo fine >f; cat f', { user: 'agent', timeout_ms: 30_000 })).stdout).toBe(
      'fine\n',
    );

    await sandbox.upload({ 'check.sh': 'ls a0 && sleep 1.5 && echo graded' });
    const graded = await sandbox.exec('bash check.sh', { user: 'grader', timeout_ms: 30_000 });
    expect(graded.stdout).toBe('a0\ngraded\n');
    await access(layer);
    await sandbox[Symbol.asyncDispose]();
    await expect(access(layer)).rejects.toThrow('ENOENT');
  });

  test('is ended as well where it is a verifier that does so', async () => {
    await using sandbox = await create();
    await sandbox.giveWorkdir('grader');
    const filling = await sandbox.exec(fill('a'), { user: 'grader', timeout_ms: 60_000 });
    expect(filling).toMatchObject({ exit_code: 137, timed_out: false });
    expect(await sandbox.state()).toBe('disk_full');
  });

  test('cannot write a file larger than the whole disk, whatever the task’s disk is', async () => {
    await using sandbox = await create(16);
    const script =
      'head -c 17M /dev/zero >big; echo $?; stat -c %s big; truncate -s 17M sparse || echo refused';
    const written = await sandbox.exec(script, { user: 'agent', timeout_ms: 30_000 });
    expect(written.stdout).toBe(`153\n${16 * 2 ** 20}\nrefused\n`);
    expect(await sandbox.state()).toBe('running');
    const root = await sandbox.exec('ulimit -f', { timeout_ms: 30_000 });
    expect(root.stdout).toBe(`${16 * 1024}\n`);
  });
});
