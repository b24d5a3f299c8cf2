import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { createServer, connect, type AddressInfo, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { silentLogger } from '../../src/observe/index.ts';
import { cliVolumeOf } from '../../src/sandbox/docker/cli-volume.ts';
import { DockerProvider, type Sandbox } from '../../src/sandbox/index.ts';
import { until } from '../support/wait.ts';
import { docker, haveDocker } from './docker-daemon.ts';
import { greeting, openGateway, requestOf } from './fixture.ts';

/** The daemon at a TCP port of this machine, as a remote one is. */
async function openTcpRelay(): Promise<AsyncDisposable & { host: string; cut: () => void }> {
  const sockets = new Set<Socket>();
  const server = createServer({ allowHalfOpen: true }, (client) => {
    const daemon = connect({ path: '/var/run/docker.sock', allowHalfOpen: true });
    for (const [socket, other] of [
      [client, daemon],
      [daemon, client],
    ] as const) {
      sockets.add(socket);
      socket.on('error', () => other.destroy());
      socket.on('close', () => {
        sockets.delete(socket);
        other.destroySoon();
      });
      socket.pipe(other);
    }
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return {
    host: `tcp://127.0.0.1:${(server.address() as AddressInfo).port}`,
    cut: () => {
      for (const socket of sockets) socket.destroy();
    },
    [Symbol.asyncDispose]: async () => {
      for (const socket of sockets) socket.destroy();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

const ask = `import socket
s = socket.socket(socket.AF_UNIX)
s.connect("/gw/gw.sock")
print(s.makefile().read(), end="")`;

async function answer(sandbox: Sandbox): Promise<string> {
  const found = await sandbox.exec(['python3', '-c', ask], { user: 'agent', timeout_ms: 30_000 });
  return found.stdout || found.stderr;
}

describe.skipIf(!haveDocker)('a Docker sandbox whose daemon is reached over a network', () => {
  let gateway: Awaited<ReturnType<typeof openGateway>>;
  let relay: Awaited<ReturnType<typeof openTcpRelay>>;
  let directory: string;
  let cli: string;
  let provider: DockerProvider;
  let sandbox: Sandbox;
  beforeAll(async () => {
    gateway = await openGateway();
    relay = await openTcpRelay();
    directory = await mkdtemp(join(tmpdir(), `rp-reach-${process.pid}-`));
    cli = join(directory, 'cli');
    await writeFile(cli, `#!/bin/bash\necho "the CLI of ${directory}"\n`, { mode: 0o755 });
    provider = new DockerProvider({ dockerHost: relay.host, runtimeDirectory: directory });
    sandbox = await provider.create(requestOf(gateway.directory, { cli_binary: cli }));
  });
  afterAll(async () => {
    await sandbox[Symbol.asyncDispose]();
    await provider[Symbol.asyncDispose]();
    await docker.getVolume((await cliVolumeOf(cli)).name).remove();
    await relay[Symbol.asyncDispose]();
    await gateway[Symbol.asyncDispose]();
    await rm(directory, { recursive: true, force: true });
  });

  test('reaches the gateway at the same path, without a network', async () => {
    expect(await answer(sandbox)).toBe(greeting);
    const { HostConfig } = await docker.getContainer(sandbox.id).inspect();
    expect(HostConfig.NetworkMode).toBe('none');
    expect(HostConfig.Mounts?.map(({ Type, Target, ReadOnly }) => ({ Type, Target, ReadOnly }))).toEqual([
      { Type: 'volume', Target: '/opt/rollpool', ReadOnly: true },
    ]);
  });

  test('has the CLI at its usual path, and cannot change it', async () => {
    expect(sandbox.cli_path).toBe('/opt/rollpool/claude');
    const run = await sandbox.exec('/opt/rollpool/claude; ls -A /opt/rollpool', {
      user: 'agent',
      timeout_ms: 30_000,
    });
    expect(run.stdout).toBe(`the CLI of ${directory}\nclaude\n`);
    const write = await sandbox.exec('touch /opt/rollpool/x', { user: 'root', timeout_ms: 30_000 });
    expect(write.stderr).toContain('Read-only file system');
  });

  test('has its CLI in one volume, whoever fills it and however often that is begun', async () => {
    const other = join(directory, 'other');
    await writeFile(other, `#!/bin/bash\necho "another ${directory}"\n${'#'.repeat(200_000)}`, {
      mode: 0o755,
    });
    const { name } = await cliVolumeOf(other);
    // As a fill that was killed leaves it: made, and with a part of the binary.
    await docker.createVolume({ Name: name });
    await using second = new DockerProvider({ dockerHost: relay.host });
    const made = await Promise.all(
      [provider, second, provider].map(async (one) =>
        one.create(requestOf(gateway.directory, { cli_binary: other })),
      ),
    );
    try {
      for (const one of made) {
        const run = await one.exec(['/opt/rollpool/claude'], { user: 'agent', timeout_ms: 30_000 });
        expect(run.stdout).toBe(`another ${directory}\n`);
      }
    } finally {
      for (const one of made) await one[Symbol.asyncDispose]();
      await docker.getVolume(name).remove();
    }
  });

  test('keeps its control socket and its relay from the agent', async () => {
    const tries = [
      'ls /run/rollpool-tunnel',
      'python3 -c \'import socket; socket.socket(socket.AF_UNIX).connect("/run/rollpool-tunnel/control")\'',
      'for f in /proc/[0-9]*/cmdline; do grep -qz "^daemon$" $f 2>/dev/null && kill -9 $(basename ${f%/cmdline}); done',
      'rm -f /gw/gw.sock',
    ];
    for (const command of tries) {
      const found = await sandbox.exec(command, { user: 'agent', timeout_ms: 30_000 });
      expect(found.stderr).toMatch(/Permission ?(denied|Error)|not permitted/);
    }
    expect(await answer(sandbox)).toBe(greeting);
  });

  test('goes on after the agent was killed', async () => {
    await sandbox.killAgent(30_000);
    expect(await answer(sandbox)).toBe(greeting);
  });

  test('leads to the hosts of an allow list through the same tunnel', async () => {
    await using listed = await provider.create(
      requestOf(gateway.directory, { spec: { network: { allow: ['allowed.example'] } } }),
    );
    expect(await answer(listed)).toBe(greeting);
    const found = await listed.exec(
      `python3 -c 'import urllib.request as u; u.urlopen("http://refused.example/", timeout=20)' 2>&1 | tail -1`,
      { user: 'agent', timeout_ms: 30_000 },
    );
    expect(found.stdout).toContain('403');
    expect(listed.proxy_url).toMatch(/^http:\/\/127\.0\.0\.1:/);
  });

  test('can be made ahead and given its gateway later', async () => {
    const { gateway_dir: _none, ...request } = requestOf(gateway.directory);
    const prepared = await provider.prepare(request);
    expect(await prepared.check(5_000)).toBe(true);
    await using assigned = await prepared.assign({
      ...requestOf(gateway.directory),
      gateway_dir: gateway.directory,
    });
    expect(await answer(assigned)).toBe(greeting);
  });

  test('is found gone when its line to the daemon is cut, as its life line is', async () => {
    await using other = await provider.create(requestOf(gateway.directory));
    relay.cut();
    await until(async () => (await other.state()) === 'gone', 'the loss is noticed');
    await sandbox[Symbol.asyncDispose]();
    sandbox = await provider.create(requestOf(gateway.directory, { cli_binary: cli }));
    expect(await answer(sandbox)).toBe(greeting);
  });
});

describe.skipIf(!haveDocker)('a Docker daemon that has other files than this machine', () => {
  // Below /proc/self/cwd this process has other files than the daemon.
  test.each([
    ['is not there', (path: string) => [join(path, '..'), `/proc/self/cwd/${basename(path)}`]],
    ['is another one', (path: string) => [path, '/proc/self/cwd']],
  ])('is noticed at the first sandbox when the directory %s, and is asked no more', async (_how, place) => {
    const lines: string[] = [];
    const log = { ...silentLogger, info: (_fields: unknown, text?: string) => void lines.push(text ?? '') };
    await using gateway = await openGateway();
    await using provider = new DockerProvider({ log: log as typeof silentLogger });
    const [cwd = '', seen = ''] = place(gateway.directory);
    const before = process.cwd();
    process.chdir(cwd);
    try {
      for (let round = 0; round < 2; round++) {
        await using sandbox = await provider.create(requestOf(seen));
        expect(await answer(sandbox)).toBe(greeting);
        const { HostConfig } = await docker.getContainer(sandbox.id).inspect();
        expect(HostConfig.Mounts ?? []).toEqual([]);
      }
    } finally {
      process.chdir(before);
    }
    expect(lines.filter((line) => line.includes('tunnel from now on'))).toHaveLength(1);
  });

  test('stays an error where only the socket may be used', async () => {
    await using gateway = await openGateway();
    await using provider = new DockerProvider({ reach: 'socket' });
    await expect(provider.create(requestOf('/nowhere/at/all'))).rejects.toMatchObject({
      failure: { class: 'infra', code: 'mount_missing' },
    });
    await using tunnelled = new DockerProvider({ reach: 'tunnel' });
    await using sandbox = await tunnelled.create(requestOf(gateway.directory));
    expect(await answer(sandbox)).toBe(greeting);
  });
});
