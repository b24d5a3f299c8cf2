import { execFileSync, spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync } from 'node:fs';
import { mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { createServer, type AddressInfo } from 'node:net';
import { tmpdir, userInfo } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { DockerProvider, type Sandbox } from '../../src/sandbox/index.ts';
import { until } from '../support/wait.ts';
import { haveDocker } from './docker-daemon.ts';
import { greeting, openGateway, requestOf } from './fixture.ts';

const sshd = '/usr/sbin/sshd';
const usable = haveDocker && existsSync(sshd) && process.getuid?.() === 0;
if (haveDocker && !usable)
  console.warn('skipping the tests of ssh:// daemons: they need root and /usr/sbin/sshd');

async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  await new Promise((resolve) => server.close(resolve));
  return port;
}

/** Parents of processes, by their pid, of those whose command has `text`. */
async function processesWith(text: string): Promise<string[]> {
  const found: string[] = [];
  for (const pid of (await readdir('/proc')).filter((name) => /^\d+$/.test(name))) {
    const command = await readFile(`/proc/${pid}/cmdline`, 'utf8').catch(() => '');
    if (command.startsWith('ssh\0') && command.includes(text)) found.push(pid);
  }
  return found;
}

describe.runIf(usable)('a Docker daemon behind ssh', () => {
  let directory: string;
  let server: ChildProcess;
  let port: number;
  let gateway: Awaited<ReturnType<typeof openGateway>>;
  const providers: DockerProvider[] = [];

  const providerAt = (address: string, config = 'client'): DockerProvider => {
    const provider = new DockerProvider({
      dockerHost: address,
      sshArguments: ['-F', join(directory, config)],
      runtimeDirectory: directory,
    });
    providers.push(provider);
    return provider;
  };

  beforeAll(async () => {
    directory = await mkdtemp(join(tmpdir(), `rp-ssh-${process.pid}-`));
    gateway = await openGateway();
    port = await freePort();
    for (const name of ['host', 'user', 'stranger']) {
      execFileSync('ssh-keygen', ['-q', '-t', 'ed25519', '-N', '', '-f', join(directory, name)]);
    }
    mkdirSync('/run/sshd', { recursive: true, mode: 0o755 });
    await writeFile(join(directory, 'authorized'), await readFile(join(directory, 'user.pub')));
    await writeFile(
      join(directory, 'server'),
      [
        `Port ${port}`,
        'ListenAddress 127.0.0.1',
        `HostKey ${join(directory, 'host')}`,
        `AuthorizedKeysFile ${join(directory, 'authorized')}`,
        'StrictModes no',
        'PidFile none',
        'PermitRootLogin yes',
        'PasswordAuthentication no',
      ].join('\n'),
    );
    const hostKey = (await readFile(join(directory, 'host.pub'), 'utf8')).trim();
    await writeFile(join(directory, 'known'), `[127.0.0.1]:${port} ${hostKey}\n`);
    const client = (key: string, known: string): string =>
      [
        `IdentityFile ${join(directory, key)}`,
        'IdentitiesOnly yes',
        `UserKnownHostsFile ${join(directory, known)}`,
        'StrictHostKeyChecking yes',
      ].join('\n');
    await writeFile(join(directory, 'client'), client('user', 'known'));
    await writeFile(join(directory, 'stranger-client'), client('stranger', 'known'));
    await writeFile(join(directory, 'wary-client'), client('user', 'nobody-known'));
    server = spawn(sshd, ['-D', '-e', '-f', join(directory, 'server')], { stdio: 'ignore' });
  });
  afterAll(async () => {
    for (const provider of providers) await provider[Symbol.asyncDispose]();
    expect(await processesWith(directory)).toEqual([]);
    const ended = once(server, 'exit');
    server.kill('SIGTERM');
    await ended;
    await gateway[Symbol.asyncDispose]();
    await rm(directory, { recursive: true });
  });

  const ask = `import socket
s = socket.socket(socket.AF_UNIX)
s.connect("/gw/gw.sock")
print(s.makefile().read(), end="")`;
  const answer = async (sandbox: Sandbox): Promise<string> =>
    (await sandbox.exec(['python3', '-c', ask], { user: 'agent', timeout_ms: 30_000 })).stdout;

  test('has sandboxes that reach the gateway by the tunnel, and is reached anew when ssh ends', async () => {
    const provider = providerAt(`ssh://${userInfo().username}@127.0.0.1:${port}`);
    await until(
      () =>
        provider.probe().then(
          () => true,
          () => false,
        ),
      'the daemon answers through ssh',
      30_000,
    );
    {
      await using sandbox = await provider.create(requestOf(gateway.directory));
      expect(await answer(sandbox)).toBe(greeting);
      const found = await sandbox.exec('wc -c', { stdin: 'x'.repeat(100_000), timeout_ms: 30_000 });
      expect(found.stdout.trim()).toBe('100000');
    }
    const [pid] = await processesWith(directory);
    process.kill(Number(pid), 'SIGKILL');
    await until(async () => {
      const [now] = await processesWith(directory);
      return now !== undefined && now !== pid;
    }, 'another ssh runs');
    await until(
      () =>
        provider.probe().then(
          () => true,
          () => false,
        ),
      'the daemon answers again',
      30_000,
    );
    await using sandbox = await provider.create(requestOf(gateway.directory));
    expect(await answer(sandbox)).toBe(greeting);
  });

  test('that refuses the key, or is not the one that is known, is one clear line', async () => {
    for (const [config, words] of [
      ['stranger-client', /ssh does not lead to the Docker daemon at 127\.0\.0\.1:\d+: .*Permission denied/],
      ['wary-client', /ssh does not lead to the Docker daemon at 127\.0\.0\.1:\d+: .*verification failed/],
    ] as const) {
      const provider = providerAt(`ssh://${userInfo().username}@127.0.0.1:${port}`, config);
      await expect(provider.probe()).rejects.toMatchObject({
        failure: {
          class: 'infra',
          code: 'docker_unreachable',
          message: expect.stringMatching(words) as string,
        },
      });
      await provider[Symbol.asyncDispose]();
    }
  });

  test('may have its socket elsewhere', async () => {
    const provider = providerAt(`ssh://127.0.0.1:${port}/nowhere/docker.sock`);
    await expect(provider.probe()).rejects.toMatchObject({ failure: { code: 'docker_unreachable' } });
    await provider[Symbol.asyncDispose]();
    const usual = providerAt(`ssh://127.0.0.1:${port}/var/run/docker.sock`);
    await usual.probe();
  });
});
