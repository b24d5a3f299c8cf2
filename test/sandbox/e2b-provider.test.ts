import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Sandbox } from '../../src/sandbox/index.ts';
import type { E2bProvider } from '../../src/sandbox/e2b/e2b-provider.ts';
import type { Place, PlaceLimit } from '../../src/contracts/index.ts';
import { haveDocker } from './docker-daemon.ts';
import { openE2bDouble, providerOf, type E2bDouble } from './e2b-scene.ts';
import { greeting, openGateway, ownerOf, requestOf, testPool } from './fixture.ts';

const connect = (socket: string): string =>
  `python3 -c 'import socket, sys
s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1]); print(s.recv(100).decode(), end="")' ${socket}`;

describe.runIf(haveDocker)('sandboxes of E2B', { timeout: 120_000 }, () => {
  let double: E2bDouble;
  let gateway: Awaited<ReturnType<typeof openGateway>>;
  let provider: E2bProvider;
  let held = 0;
  const limit: PlaceLimit = {
    take: async (signal): Promise<Place> => {
      signal.throwIfAborted();
      held += 1;
      let given = false;
      const release = async (): Promise<void> => {
        if (!given) held -= 1;
        given = true;
      };
      return { release, [Symbol.asyncDispose]: release };
    },
  };
  const viewOf = (sandbox: Sandbox) => double.sandboxes().find(({ id }) => id === sandbox.id)!;

  beforeAll(async () => {
    double = await openE2bDouble();
    gateway = await openGateway();
    provider = providerOf(double, { limit });
  });
  afterAll(async () => {
    await provider[Symbol.asyncDispose]();
    expect(double.sandboxes()).toEqual([]);
    expect(held).toBe(0);
    await gateway[Symbol.asyncDispose]();
    await double[Symbol.asyncDispose]();
  });

  test('are made with a time of their own, labels and no way out, and hold a place as long as they live', async () => {
    await using sandbox = await provider.create(
      requestOf(gateway.directory, { gateway_dir: null, ttl_seconds: 600, owner: { nonce: 'n1' } }),
    );
    const view = viewOf(sandbox);
    expect(view.metadata).toMatchObject({
      'io.rollpool.sandbox': '1',
      'io.rollpool.pool': testPool,
      'io.rollpool.attempt': '1',
      'io.rollpool.nonce': 'n1',
    });
    expect(view.internet).toBe(false);
    expect(JSON.stringify(view)).not.toContain(double.apiKey);
    expect(view.ends_at - Date.now()).toBeGreaterThan(600_000);
    expect(view.ends_at - Date.now()).toBeLessThan(700_000);
    expect(held).toBe(1);
    await sandbox.extend(1_000);
    expect(viewOf(sandbox).ends_at - Date.now()).toBeGreaterThan(1_600_000);
    // The template's own user becomes root so; the agent does not.
    const root = await sandbox.exec('sudo -n id -u; su root -c "id -u" </dev/null', {
      user: 'agent',
      timeout_ms: 30_000,
    });
    expect(root).toMatchObject({ stdout: '' });
    expect(root.exit_code).not.toBe(0);
    expect(sandbox.cli_path).toBeNull();
    expect(sandbox.no_cli?.failure).toMatchObject({ class: 'task', code: 'cli_missing' });
  });

  test('end a bomb of processes at its deadline and with its user, and go on', async () => {
    await using sandbox = await provider.create(requestOf(gateway.directory, { gateway_dir: null }));
    const bomb = 'ulimit -u 120; b() { b | b & b; }; b';
    expect(await sandbox.exec(bomb, { user: 'agent', timeout_ms: 500 })).toMatchObject({ timed_out: true });
    await sandbox.exec(`(${bomb}) >/dev/null 2>&1 &`, { user: 'agent', timeout_ms: 10_000 });
    await sandbox.killAgent(30_000);
    const left = await sandbox.exec(
      'echo alive; pgrep -u 58201 || cat /proc/[0-9]*/status | grep -c "58201"',
      {
        timeout_ms: 10_000,
      },
    );
    expect(left.stdout).toBe('alive\n0\n');
    expect(await sandbox.state()).toBe('running');
  });

  test('keep an allow list as E2B writes it', async () => {
    await using sandbox = await provider.create(
      requestOf(gateway.directory, {
        gateway_dir: null,
        spec: { network: { allow: ['example.com', '*.example.org', '10.1.0.0/16'] } },
      }),
    );
    expect(viewOf(sandbox).network).toMatchObject({
      allowOut: ['example.com', '*.example.org', '10.1.0.0/16'],
      denyOut: ['0.0.0.0/0'],
    });
  });

  test('made ahead wait without a gateway, are checked, and lead to the one they are given', async () => {
    const prepared = await provider.prepare({
      spec: requestOf(gateway.directory).spec,
      owner: ownerOf({ run_id: '' }),
      cli_binary: null,
      ttl_seconds: 300,
      signal: new AbortController().signal,
    });
    expect(await prepared.check(10_000)).toBe(true);
    await prepared.sandbox.exec('echo ahead > ahead', { user: 'agent', timeout_ms: 10_000 });
    await using sandbox = await prepared.assign({
      gateway_dir: gateway.directory,
      ttl_seconds: 1_200,
      signal: new AbortController().signal,
    });
    expect(viewOf(sandbox).ends_at - Date.now()).toBeGreaterThan(1_200_000);
    const found = await sandbox.exec(`cat ahead; ${connect(sandbox.gateway_socket)}`, {
      user: 'agent',
      timeout_ms: 30_000,
    });
    expect(found.stdout).toBe(`ahead\n${greeting}`);
  });

  test('made ahead and gone are found out by the check', async () => {
    const prepared = await provider.prepare({
      spec: requestOf(gateway.directory).spec,
      owner: ownerOf({ run_id: '' }),
      cli_binary: null,
      ttl_seconds: 300,
      signal: new AbortController().signal,
    });
    await double.evict(prepared.id);
    expect(await prepared.check(10_000)).toBe(false);
    await prepared[Symbol.asyncDispose]();
  });

  test('are kept as a state that others start from, are listed by their pool, and removed', async () => {
    const owner = ownerOf({ episode_id: 'e0kept', attempt: 2 });
    let name: string;
    {
      await using first = await provider.create(requestOf(gateway.directory, { gateway_dir: null, owner }));
      await first.exec('echo kept > kept; echo mine > "$HOME/mine"', { user: 'agent', timeout_ms: 10_000 });
      name = await first.snapshot!(owner, 60_000);
    }
    const listed = await provider.listSnapshots(testPool);
    expect(listed).toMatchObject([{ name, owner: { pool: testPool, episode_id: 'e0kept', attempt: 2 } }]);
    expect(Math.abs(listed[0]!.created_at - Date.now())).toBeLessThan(120_000);
    expect(await provider.listSnapshots(`${testPool}-other`)).toEqual([]);
    {
      await using second = await provider.create(
        requestOf(gateway.directory, { gateway_dir: null, snapshot: name }),
      );
      const found = await second.exec('cat kept "$HOME/mine"; rm kept', {
        user: 'agent',
        timeout_ms: 10_000,
      });
      expect(found).toMatchObject({ stdout: 'kept\nmine\n', exit_code: 0 });
    }
    await provider.removeSnapshot(name);
    await provider.removeSnapshot(name);
    expect(await provider.listSnapshots(testPool)).toEqual([]);
  });
});
