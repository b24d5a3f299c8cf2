import { chmod, mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import {
  createSandboxProvider,
  createSandboxShelf,
  createWarmPool,
  type Sandbox,
  type SandboxProvider,
} from '../../../src/sandbox/index.ts';
import type { Ahead, SandboxRequest, StartedAhead } from '../../../src/sandbox/sandbox.ts';
import type { SandboxShelf } from '../../../src/sandbox/warm/warm-pool.ts';
import { sandboxContract } from '../contract.ts';
import { docker, haveDocker } from '../docker-daemon.ts';
import { greeting, openGateway, reapFilter, requestOf, testPool } from '../fixture.ts';

const directory = await mkdtemp(join(tmpdir(), `rp-warm-${process.pid}-`));
await chmod(directory, 0o711);
afterAll(() => rm(directory, { recursive: true, force: true }));

async function containers(): Promise<string[]> {
  const found = await docker.listContainers({ all: true });
  return found.filter(({ Labels }) => Labels['io.rollpool.pool']?.startsWith(testPool)).map(({ Id }) => Id);
}

/** A pool, and its shelf, that goes first. */
function openPool(capacity: number, fillAfter = 1): SandboxProvider & { readonly shelf: SandboxShelf } {
  const shelf = createSandboxShelf({ capacity, fillAfter });
  const inner = createSandboxProvider('docker', { runtimeDirectory: directory });
  const pool = createWarmPool(inner, { shelf });
  return {
    ...pool,
    shelf,
    [Symbol.asyncDispose]: async () => {
      await shelf[Symbol.asyncDispose]();
      await pool[Symbol.asyncDispose]();
    },
  };
}

describe.runIf(haveDocker)('docker through a warm pool', () => {
  let pool: ReturnType<typeof openPool>;
  sandboxContract('warm docker', {
    create: () => {
      pool = openPool(2, 2);
      return pool;
    },
    surelyFound: true,
    vanish: async (sandbox) => {
      await docker.getContainer(sandbox.id).remove({ force: true });
    },
    leftovers: async () => {
      pool.shelf.drain();
      await pool.shelf.settled();
      return containers();
    },
  });
});

describe.runIf(haveDocker)('a warm pool of Docker sandboxes', () => {
  let gateway: Awaited<ReturnType<typeof openGateway>>;
  beforeAll(async () => {
    gateway = await openGateway();
  });
  afterAll(async () => {
    await gateway[Symbol.asyncDispose]();
    expect(await containers()).toEqual([]);
    expect(await readdir(directory)).toEqual([]);
  });
  const requested = (overrides: Parameters<typeof requestOf>[1] = {}): SandboxRequest =>
    requestOf(gateway.directory, overrides);

  async function talks(sandbox: Sandbox): Promise<string> {
    const script = `import socket, sys
s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1]); print(s.recv(100).decode(), end="")`;
    const found = await sandbox.exec(['python3', '-c', script, sandbox.gateway_socket], {
      user: 'agent',
      timeout_ms: 30_000,
    });
    return found.stdout;
  }

  test('has one ready for the next request of a kind, at once and only for that kind', async () => {
    await using pool = openPool(1);
    await using first = await pool.create(requested());
    expect(first.warm).toBeUndefined();
    await pool.shelf.settled();
    const began = performance.now();
    await using second = await pool.create(requested());
    expect(performance.now() - began).toBeLessThan(150);
    expect(second.warm).toEqual({ ahead: null });
    expect(await talks(second)).toBe(greeting);
    await pool.shelf.settled();
    await using other = await pool.create(requested({ spec: { workdir: '/elsewhere' } }));
    expect(other.warm).toBeUndefined();
    expect(other.workdir).toBe('/elsewhere');
  });

  test('gives nobody the same one, and holds its bound, under load', async () => {
    await using pool = openPool(2);
    let most = 0;
    const inUse = new Set<string>();
    const episode = async (): Promise<void> => {
      await using sandbox = await pool.create(requested());
      expect(inUse.has(sandbox.id)).toBe(false);
      inUse.add(sandbox.id);
      await sandbox.exec('true', { timeout_ms: 60_000 });
      most = Math.max(most, pool.shelf.size);
    };
    const lane = async (): Promise<void> => {
      for (let time = 0; time < 3; time++) await episode();
    };
    await Promise.all([lane(), lane(), lane()]);
    expect(inUse.size).toBe(9);
    expect(most).toBeLessThanOrEqual(2);
  });

  test('gives out no sandbox that is frozen or gone', async () => {
    await using pool = openPool(2);
    await (await pool.create(requested()))[Symbol.asyncDispose]();
    await (await pool.create(requested()))[Symbol.asyncDispose]();
    await pool.shelf.settled();
    const [frozen, gone, ...more] = await containers();
    expect(more).toEqual([]);
    await docker.getContainer(frozen!).pause();
    await docker.getContainer(gone!).kill();
    await using sandbox = await pool.create(requested());
    expect([frozen, gone]).not.toContain(sandbox.id);
    expect(await talks(sandbox)).toBe(greeting);
    await pool.shelf.settled();
    expect(await containers()).not.toContain(frozen);
    expect(await containers()).not.toContain(gone);
  });

  test('starts what is to be started ahead, and gives none out in which it ended', async () => {
    const lives: { alive: boolean; id: string }[] = [];
    const ahead: Ahead = {
      key: 'sleeper',
      start: async ({ id }) => {
        const life = { alive: true, id };
        lives.push(life);
        const started: StartedAhead = {
          alive: () => life.alive,
          [Symbol.asyncDispose]: async () => undefined,
        };
        return started;
      },
    };
    await using pool = openPool(1);
    await (await pool.create(requested({ ahead })))[Symbol.asyncDispose]();
    await pool.shelf.settled();
    {
      await using without = await pool.create(requested());
      expect(without.warm).toBeUndefined();
      await using warm = await pool.create(requested({ ahead }));
      expect([warm.id, warm.warm?.ahead?.alive()]).toEqual([lives[0]!.id, true]);
    }
    await pool.shelf.settled();
    const [waiting] = await containers();
    const ofWaiting = lives.find(({ id }) => id === waiting);
    if (ofWaiting !== undefined) ofWaiting.alive = false;
    await using next = await pool.create(requested({ ahead }));
    expect(next.id).not.toBe(ofWaiting?.id);
  });

  test('makes episodes wait for nothing that cannot be made ahead', async () => {
    await using pool = openPool(1);
    const ahead: Ahead = { key: 'never', start: () => Promise.reject(new Error('it does not start')) };
    await (await pool.create(requested({ ahead })))[Symbol.asyncDispose]();
    await pool.shelf.settled();
    expect(await containers()).toEqual([]);
    await using sandbox = await pool.create(requested({ ahead }));
    expect(sandbox.warm).toBeUndefined();
  });

  test('leaves its waiting sandboxes to the sweep when its worker is dead', async () => {
    await using pool = openPool(1);
    const owner = { worker: 'worker-dead' };
    await (await pool.create(requested({ owner })))[Symbol.asyncDispose]();
    await pool.shelf.settled();
    const [waiting] = await containers();
    const alive = await pool.reap(reapFilter());
    expect(alive.kept.map(({ id }) => id)).toEqual([waiting]);
    const byRun = await pool.reap(reapFilter({ run_id: 'run-1', all: true }));
    expect(byRun.removed).toEqual([]);
    const dead = await pool.reap(reapFilter({ isDead: (worker) => worker === 'worker-dead' }));
    expect(dead.removed).toEqual([waiting]);
  });
});
