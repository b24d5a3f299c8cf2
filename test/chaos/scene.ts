import { chmod, mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect } from 'vitest';
import type { FleetTask } from '../../src/contracts/index.ts';
import { createFleetProvider } from '../../src/fleet/index.ts';
import { shippedEnvironments, startLocalFleet, type LocalFleet } from '../../src/local-fleet/index.ts';
import type { CrashPoint } from '../../src/observe/index.ts';
import { parseScripts, startScriptedPolicy } from '../../src/policy/index.ts';
import { createSandboxProvider } from '../../src/sandbox/index.ts';
import { messageTask, openGate } from '../e2e/fleet/stage.ts';
import { lane, openPool, tasksOf, type TestPool } from '../queue/pool.ts';
import type { PlaceSetting } from './act-in-place.ts';
import { crashTable, inPlace } from './crash-table.ts';
import type { OpenPool } from './messages.ts';

/** What episodes that act somewhere stand on, for all scenes of one test file. */
export interface Stage extends AsyncDisposable {
  readonly setting: PlaceSetting;
}

export async function openStage(): Promise<Stage> {
  const directory = await mkdtemp(join(tmpdir(), `rp-chaos-${process.pid}-`));
  await chmod(directory, 0o711);
  const policy = await startScriptedPolicy({
    scripts: parseScripts({
      schema: 'rollpool.scripts/1',
      scripts: [{ match: 'I act in', turns: [{ text: 'done' }] }],
    }),
  });
  const fleetKey = 'chaos-key';
  const fleet = await startLocalFleet({ environments: await shippedEnvironments(), apiKey: fleetKey });
  const pool = `chaos-${process.pid}`;
  return {
    setting: { policyUrl: policy.url, model: policy.model, directory, pool, fleetUrl: fleet.url, fleetKey },
    [Symbol.asyncDispose]: async () => {
      await policy[Symbol.asyncDispose]();
      // Every worker is gone: a sweep finds what they left by its labels alone.
      const provider = createSandboxProvider('local', { directory });
      await provider.reap({ pool, isDead: () => true });
      await sweepFleet(fleet, fleetKey, pool);
      const left = (await readdir(directory)).filter((name) => !name.startsWith('gw-'));
      await rm(directory, { recursive: true, force: true });
      expect(left).toEqual([]);
    },
  };
}

/** The same for instances of the Fleet service. */
async function sweepFleet(fleet: LocalFleet, apiKey: string, pool: string): Promise<void> {
  await using provider = createFleetProvider({ baseUrl: fleet.url, apiKey, gate: openGate() });
  await provider.reap({ pool, isDead: () => true });
  const left = fleet.instances();
  await fleet[Symbol.asyncDispose]();
  expect(left).toEqual([]);
}

export interface Scene extends AsyncDisposable {
  readonly pool: TestPool;
  readonly expected: { groups: number; samples: number };
  /** The pool as the process opens it that comes to the point. */
  readonly doomed: Omit<OpenPool, 'signal'>;
  /** The same for the process that lives beside it, and keeps one episode until it is told to go on. */
  readonly twin: Omit<OpenPool, 'signal'>;
}

function fleetTasks(count: number): FleetTask[] {
  return Array.from({ length: count }, (_none, index) =>
    messageTask({ task_key: `task-${index}`, prompt: `task-${index}` }),
  );
}

/** A run of its own in which one process will pass `point`. */
export async function openScene(point: CrashPoint, stage: Stage): Promise<Scene> {
  const { part, acts } = crashTable[point];
  const pool = await openPool({ reconcileMs: 300 });
  const place = inPlace(acts);
  const expected = { groups: place === null ? 3 : 2, samples: 2 };
  await pool.add(acts === 'environment' ? fleetTasks(expected.groups) : tasksOf(expected.groups));
  if (part === 'reconciler') {
    // One lost job, so that there is something to repair.
    const [id] = await pool.redis.zrange(`${pool.options.prefix!}:episodes-${lane}:prioritized`, '-1', '-1');
    await pool.redis
      .multi()
      .zrem(`${pool.options.prefix!}:episodes-${lane}:prioritized`, id!)
      .del(`${pool.options.prefix!}:episodes-${lane}:${id}`)
      .exec();
  }
  const common = {
    name: point,
    options: pool.options,
    ...(place === null ? {} : { place: { acts: place, setting: stage.setting } }),
  };
  const all = ['worker', 'feeder', 'reconciler'] as const;
  return {
    pool,
    expected,
    doomed: { ...common, point, acts, parts: all, concurrency: 2 },
    twin: {
      ...common,
      acts: 'plain',
      parts: all.filter((other) => other !== part || part === 'worker'),
      concurrency: 1,
      hold: true,
    },
    [Symbol.asyncDispose]: () => pool[Symbol.asyncDispose](),
  };
}
