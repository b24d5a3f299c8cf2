import { createServer } from 'node:net';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { createSandboxProvider, type Sandbox, type SandboxProvider } from '../../../src/sandbox/index.ts';
import { haveDocker } from '../docker-daemon.ts';
import { openGateway, requestOf } from '../fixture.ts';
import { abstractSocket, farHosts, interfaces, lookUp, noWayOut, python, waysOut } from './inside.ts';
import { tcpHost } from './stage.ts';

describe.runIf(haveDocker)('the network of a docker sandbox', () => {
  let provider: SandboxProvider;
  let gateway: Awaited<ReturnType<typeof openGateway>>;
  const create = (network: 'none' | 'open'): Promise<Sandbox> =>
    provider.create(requestOf(gateway.directory, { spec: { network } }));

  beforeAll(async () => {
    gateway = await openGateway();
    provider = createSandboxProvider('docker');
  });
  afterAll(async () => {
    await provider[Symbol.asyncDispose]();
    await gateway[Symbol.asyncDispose]();
  });

  test('none: the agent has a loopback of its own and no way to anything else', async () => {
    await using host = await tcpHost((socket) => socket.end('here'), '0.0.0.0');
    await using sandbox = await create('none');
    expect(sandbox.proxy_url).toBeNull();
    expect(await python(sandbox, interfaces)).not.toMatch(/eth|ens|wlan|br-/);
    expect(
      (await sandbox.exec('cat /proc/net/route | wc -l; env | grep -ic proxy', { timeout_ms: 30_000 }))
        .stdout,
    ).toBe('1\n0\n');
    expect(await python(sandbox, lookUp, ['example.com'])).toBe('not-found');
    expect(await waysOut(sandbox, farHosts, host.port)).toEqual(noWayOut(farHosts));
    // The worker's own loopback is another one.
    const local = await waysOut(sandbox, ['127.0.0.1', '::1'], host.port);
    expect(local.filter((line) => line.includes('tcp reached'))).toEqual([]);
    expect(host.connections).toHaveLength(0);
  });

  test('none: Unix sockets of the machine that have no file are out of reach', async () => {
    const name = `rollpool-test-${process.pid}`;
    const server = createServer((socket) => socket.destroy());
    await new Promise<void>((resolve) => server.listen(`\0${name}`, resolve));
    await using sandbox = await create('none');
    expect(await python(sandbox, abstractSocket, [name])).toBe('ConnectionRefusedError');
    await new Promise((resolve) => server.close(resolve));
  });

  test('open: there is an interface and no proxy', async () => {
    await using sandbox = await create('open');
    expect(sandbox.proxy_url).toBeNull();
    expect(await python(sandbox, interfaces)).toMatch(/eth0/);
    expect((await sandbox.exec('env | grep -ic proxy', { timeout_ms: 30_000 })).stdout).toBe('0\n');
  });
});
