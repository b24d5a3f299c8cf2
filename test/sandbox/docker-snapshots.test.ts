import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { DockerProvider, type Sandbox } from '../../src/sandbox/index.ts';
import { docker, haveDocker } from './docker-daemon.ts';
import { openGateway, ownerOf, requestOf, testPool } from './fixture.ts';

describe.runIf(haveDocker)('a kept final state of a Docker sandbox', () => {
  let gateway: Awaited<ReturnType<typeof openGateway>>;
  let provider: DockerProvider;
  let sandbox: Sandbox;

  beforeAll(async () => {
    gateway = await openGateway();
    provider = new DockerProvider();
    sandbox = await provider.create(requestOf(gateway.directory));
  });
  afterAll(async () => {
    await sandbox[Symbol.asyncDispose]();
    for (const { name } of await provider.listSnapshots(testPool)) await provider.removeSnapshot(name);
    expect(await provider.listSnapshots(testPool)).toEqual([]);
    await provider[Symbol.asyncDispose]();
    await gateway[Symbol.asyncDispose]();
  });

  const run = (where: Sandbox, command: string) => where.exec(command, { user: 'agent', timeout_ms: 30_000 });

  test('is what the agent left, however the sandbox goes on, and names its owner', async () => {
    await run(sandbox, 'echo as it was >kept; echo home >~/kept; chmod 700 kept');
    const owner = ownerOf({ run_id: 'run-kept', attempt: 3 });
    const before = Date.now();
    const name = await sandbox.snapshot!(owner, 60_000);
    await run(sandbox, 'echo changed >kept');
    await using again = await provider.create(requestOf(gateway.directory, { snapshot: name }));
    const found = await run(again, 'cat kept ~/kept; stat -c "%u %a" kept');
    expect(found.stdout).toBe('as it was\nhome\n1000 700\n');
    const [kept] = await provider.listSnapshots(testPool);
    expect(kept).toMatchObject({ name, owner });
    expect(kept!.created_at).toBeGreaterThanOrEqual(before);
    // A sandbox that runs on it is its own, and no kept state.
    expect((await docker.getContainer(again.id).inspect()).Config.Labels['io.rollpool.run']).toBe('run-1');
    const elsewhere = await provider.reap({ pool: testPool, isDead: () => false });
    expect(elsewhere.removed).toEqual([]);
  });

  test('is listed newest first, for its own pool alone', async () => {
    const first = await sandbox.snapshot!(ownerOf(), 60_000);
    const second = await sandbox.snapshot!(ownerOf(), 60_000);
    const other = await sandbox.snapshot!(ownerOf({ pool: `${testPool}-other` }), 60_000);
    try {
      const names = (await provider.listSnapshots(testPool)).map(({ name }) => name);
      expect(names.slice(0, 2)).toEqual([second, first]);
      expect(names).not.toContain(other);
    } finally {
      await provider.removeSnapshot(other);
    }
  });

  test('is removed once, and a second removal is fine', async () => {
    const name = await sandbox.snapshot!(ownerOf(), 60_000);
    await provider.removeSnapshot(name);
    await provider.removeSnapshot(name);
    expect((await provider.listSnapshots(testPool)).map((kept) => kept.name)).not.toContain(name);
    await expect(provider.create(requestOf(gateway.directory, { snapshot: name }))).rejects.toMatchObject({
      failure: { class: 'task' },
    });
    await expect(provider.removeSnapshot('rollpool-sandbox:bookworm')).rejects.toThrow('not a kept');
  });
});
