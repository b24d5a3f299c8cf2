import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readdirSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { fileURLToPath } from 'node:url';
import { Sandbox as E2bSandbox } from 'e2b';
import { Redis } from 'ioredis';
import PQueue from 'p-queue';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { parseScripts, startScriptedPolicy, type ScriptedPolicy } from '../../src/policy/index.ts';
import { createQueue, parseRedisUrl, queueNames } from '../../src/queue/index.ts';
import { createSandboxProvider, type SandboxProvider } from '../../src/sandbox/index.ts';
import { reapOnce } from '../../workers/reaper.ts';
import { openStage, type Stage } from '../e2e/stage.ts';
import { clientOf } from '../e2b-double/fixture.ts';
import { openE2bDouble, type E2bDouble } from '../e2b-double/open-e2b-double.ts';
import { docker, haveDocker, testImage } from '../sandbox/docker-daemon.ts';
import { freshPrefix, testRedisUrl } from '../support/redis.ts';
import { until } from '../support/wait.ts';
import {
  placeLeaseMs,
  sandboxPhases,
  withoutSandbox,
  type DoomedOptions,
  type DoomedProvider,
  type SandboxPhase,
} from './sandbox-phases.ts';

const program = fileURLToPath(new URL('./doomed-sandbox.ts', import.meta.url));
const both = ['docker', 'e2b'] as const satisfies readonly DoomedProvider[];
/** Who is killed where: together where a process can wait for both. */
const cases: readonly { phase: SandboxPhase; providers: readonly DoomedProvider[] }[] = [
  // E2B has nothing to bring.
  { phase: 'provide', providers: ['docker'] },
  { phase: 'made', providers: ['docker'] },
  { phase: 'made', providers: ['e2b'] },
  ...sandboxPhases
    .filter((phase) => phase !== 'provide' && phase !== 'made')
    .map((phase) => ({ phase, providers: both })),
];
const nameOf = (pool: string, { phase, providers }: (typeof cases)[number]): string =>
  `${pool} ${providers.join('+')} ${phase}`;

interface Doomed {
  readonly pid: number;
  readonly exited: Promise<NodeJS.Signals | null>;
  says(text: string): Promise<void>;
  kill(): Promise<void>;
}

describe.runIf(haveDocker)('sandboxes of workers that were killed', { timeout: 300_000 }, () => {
  let stage: Stage;
  let double: E2bDouble;
  let policy: ScriptedPolicy;
  let otherPool: string;
  const started: Doomed[] = [];
  /** What was there of each worker before the sweep and after it, by provider and phase. */
  const before = new Map<string, string[]>();
  let living: Doomed;
  const foreign: string[] = [];

  const start = (options: Pick<DoomedOptions, 'phase' | 'providers'>, pool: string): Doomed => {
    const all: DoomedOptions = {
      ...options,
      pool,
      redisUrl: testRedisUrl(),
      policyUrl: policy.url,
      e2b: { apiKey: double.apiKey, apiUrl: double.apiUrl, sandboxUrl: double.sandboxUrl },
    };
    const child = spawn(process.execPath, ['--import', 'tsx', program, JSON.stringify(all)], {
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    let said = '';
    for (const output of [child.stdout, child.stderr])
      output.on('data', (data: Buffer) => (said += data.toString()));
    let signal: NodeJS.Signals | null | undefined;
    const exited = once(child, 'close').then(() => {
      signal = child.signalCode;
      if (signal === null) throw new Error(`${options.phase}: ${said}`);
      return signal;
    });
    exited.catch(() => undefined);
    const doomed = {
      pid: child.pid!,
      exited,
      says: async (text: string) => {
        await until(() => said.includes(text) || signal !== undefined, `${text} is said`, 60_000);
        if (!said.includes(text)) throw new Error(said);
      },
      kill: async () => {
        child.kill('SIGKILL');
        await exited.catch(() => undefined);
      },
    };
    started.push(doomed);
    return doomed;
  };

  /** Containers, machines and directories that a process left, by what names it. */
  const leftOf = async (pid: number): Promise<string[]> => {
    const isIts = (worker: string | undefined): boolean => worker?.includes(`-${pid}-`) ?? false;
    const containers = await docker.listContainers({
      all: true,
      filters: { label: ['io.rollpool.sandbox=1'] },
    });
    return [
      ...containers
        .filter(({ Labels }) => isIts(Labels['io.rollpool.worker']))
        .map(({ Id }) => `docker ${Id}`),
      ...double
        .sandboxes()
        .filter(({ metadata }) => isIts(metadata['io.rollpool.worker']))
        .map(({ id }) => `e2b ${id}`),
      ...readdirSync(tmpdir()).filter((name) => name.startsWith(`rp-gw-${pid}-`)),
    ];
  };
  const sandboxesIn = (left: readonly string[]): string[] =>
    left.filter((name) => !name.startsWith('rp-gw-'));

  const killed = new Map<string, Doomed>();
  const killIn = async (one: (typeof cases)[number], pool: string): Promise<void> => {
    const doomed = start(one, pool);
    expect(await doomed.exited).toBe('SIGKILL');
    killed.set(nameOf(pool, one), doomed);
    before.set(nameOf(pool, one), await leftOf(doomed.pid));
  };
  /** What is left of those of a pool. */
  const leftIn = async (pool: string): Promise<Record<string, string[]>> => {
    const found: Record<string, string[]> = {};
    for (const [name, { pid }] of killed) if (name.startsWith(pool)) found[name] = await leftOf(pid);
    return found;
  };

  const sweepers = (): SandboxProvider[] =>
    both.map((name) =>
      createSandboxProvider(name, {
        e2b: { connection: { ...clientOf(double), domain: null }, template: 'base' },
      }),
    );

  beforeAll(async () => {
    double = await openE2bDouble();
    policy = await startScriptedPolicy({
      scripts: parseScripts({
        schema: 'rollpool.scripts/1',
        scripts: [{ match: 'I act', turns: [{ text: 'done' }] }],
      }),
    });
    stage = await openStage(double.env);
    otherPool = freshPrefix();
    const labels = {
      'io.rollpool.sandbox': '1',
      'io.rollpool.pool': 'somebody-else',
      'io.rollpool.worker': 'their-worker',
      'io.rollpool.run': 'r',
      'io.rollpool.episode': 'e',
      'io.rollpool.attempt': '1',
      'io.rollpool.nonce': 'n',
      'io.rollpool.expires': '0',
    };
    for (const [name, theirs] of [
      ['rollpool-theirs', labels],
      ['rollpool-unlabelled', {}],
    ] as const) {
      const container = await docker.createContainer({
        name: `${name}-${process.pid}`,
        Image: testImage,
        Cmd: ['sleep', '600'],
        Labels: theirs,
      });
      foreign.push(container.id);
    }
    for (const metadata of [labels, { pool: stage.pool }]) {
      const made = await E2bSandbox.create('base', {
        ...clientOf(double),
        metadata,
        timeoutMs: 3_600_000,
        allowInternetAccess: false,
      });
      foreign.push(made.sandboxId);
    }
    living = start({ phase: 'living', providers: both }, stage.pool);
    const few = new PQueue({ concurrency: 3 });
    await Promise.all([
      ...cases.map((one) => few.add(() => killIn(one, stage.pool))),
      ...(['agent', 'ready ahead'] as const).map((phase) =>
        few.add(() => killIn({ phase, providers: both }, otherPool)),
      ),
    ]);
    await Promise.all(both.map((name) => living.says(`living ${name}`)));
  }, 300_000);

  afterAll(async () => {
    for (const one of started) await one.kill();
    await using _docker = createSandboxProvider('docker');
    for (const pool of [stage.pool, otherPool]) {
      for (const { name } of (await _docker.listSnapshots?.(pool)) ?? []) await _docker.removeSnapshot!(name);
      await reapOnce({ pool, providers: sweepers(), queue: stage.queue, all: true });
    }
    for (const id of foreign.slice(0, 2)) await docker.getContainer(id).remove({ force: true });
    await stage[Symbol.asyncDispose]();
    await double[Symbol.asyncDispose]();
    await policy[Symbol.asyncDispose]();
  }, 120_000);

  test.each(cases.map((one) => [one.providers.join(' and '), one.phase, one] as const))(
    'a worker with %s killed in "%s" leaves what the sweep is to find',
    (_names, phase, one) => {
      const left = before.get(nameOf(stage.pool, one))!;
      expect(left.filter((name) => name.startsWith('rp-gw-'))).toHaveLength(1);
      expect(sandboxesIn(left)).toHaveLength(withoutSandbox.includes(phase) ? 0 : one.providers.length);
    },
  );

  test('a creation whose answer never came to a worker that died is swept as well', async () => {
    double.fault({ kind: 'lose', call: 'create', times: 1 });
    const made = double.made.length;
    const doomed = start({ providers: ['e2b'], phase: 'made' }, otherPool);
    await until(() => double.made.length > made, 'the sandbox is made', 60_000);
    await doomed.kill();
    expect(sandboxesIn(await leftOf(doomed.pid))).toHaveLength(1);
    killed.set(`${otherPool} lost`, doomed);
  });

  test("one sweep of another worker removes all of its pool's dead, and nothing of other pools", async () => {
    const theirs = await leftIn(stage.pool);
    const all = sweepers();
    const queue = await createQueue({ redisUrl: testRedisUrl(), prefix: otherPool });
    try {
      await reapOnce({ pool: otherPool, providers: all, queue });
    } finally {
      await queue.close();
      for (const one of all) await one[Symbol.asyncDispose]();
    }
    for (const [name, left] of Object.entries(await leftIn(otherPool))) expect(left, name).toEqual([]);
    expect(await leftIn(stage.pool)).toEqual(theirs);
  });

  test('one rollpool reap removes all the others, and touches nobody who lives and nothing foreign', async () => {
    const alive = await leftOf(living.pid);
    // Sandboxes of two episodes, two that are ready, and a directory.
    expect(alive).toHaveLength(5);
    const reaped = await stage.run(['reap']);
    expect(reaped.code, reaped.stderr).toBe(0);
    for (const [name, left] of Object.entries(await leftIn(stage.pool))) expect(left, name).toEqual([]);
    expect(await leftOf(living.pid)).toEqual(alive);
    const there = [
      ...(await docker.listContainers({ all: true })).map(({ Id }) => Id),
      ...double.sandboxes().map(({ id }) => id),
    ];
    for (const id of foreign) expect(there).toContain(id);
  });

  test('places of dead workers are free again by themselves, those of the living are held', async () => {
    const redis = new Redis(parseRedisUrl(testRedisUrl()));
    const held = async (): Promise<number> => {
      const [seconds] = await redis.time();
      return redis.zcount(`${queueNames(stage.pool).places('e2b')}:leases`, Number(seconds) * 1_000, '+inf');
    };
    await until(
      async () => (await held()) === 2,
      'only those of the living worker are held',
      placeLeaseMs * 10,
    );
    redis.disconnect();
  });
});
