import { readdir } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { startScriptedPolicy, type ScriptedPolicy } from '../../src/policy/index.ts';
import { haveDocker } from '../sandbox/docker-daemon.ts';
import { until } from '../support/wait.ts';
import { openDockerRelay } from './docker-relay.ts';
import { openPolicyGate } from './policy-gate.ts';
import { smallScripts, smallTask } from './small-tasks.ts';
import { openStage, parseResults, places, placesOf, readResults, type Stage } from './stage.ts';

/** Locks that run out within seconds, so that what a killed worker had runs again within seconds. */
const shortLocks = {
  ROLLPOOL_LOCK_SECONDS: '6',
  ROLLPOOL_LOCK_RENEW_SECONDS: '1',
  ROLLPOOL_STALLED_SECONDS: '1',
};
const keys = ['one', 'two', 'three'];

/** Directories of the gateway sockets of a process. */
async function socketDirectories(pid: number): Promise<string[]> {
  return (await readdir(tmpdir())).filter((name) => name.startsWith(`rp-gw-${pid}-`));
}

async function running(stage: Stage, worker: string): Promise<boolean> {
  return (await stage.containers(worker)).some(({ State }) => State === 'running');
}

describe.runIf(haveDocker)('episodes of a worker that ends', { timeout: 180_000 }, () => {
  let policy: ScriptedPolicy;
  beforeAll(async () => {
    policy = await startScriptedPolicy({ scripts: smallScripts(), seed: 1 });
  });
  afterAll(async () => policy[Symbol.asyncDispose]());

  test('by SIGKILL run again elsewhere: one result each, and nothing is left after rollpool reap', async () => {
    await using gate = await openPolicyGate(policy.url);
    await using stage = await openStage({ ...shortLocks, ROLLPOOL_POLICY_URL: gate.url });
    gate.hold();
    const tasks = await stage.file(
      'tasks.json',
      keys.map((key) => smallTask(key)),
    );
    const enqueued = await stage.run(['enqueue', tasks, '--samples', '2', '--run-id', 'killed']);
    expect(enqueued).toMatchObject({ code: 0, stdout: 'run killed: 6 episodes added, 0 were there\n' });
    const follower = stage.start(['results', 'killed', '--follow', '--json']);
    const [doomed, other] = await Promise.all([
      stage.worker(['--concurrency', '3']),
      stage.worker(['--concurrency', '3']),
    ]);
    await until(() => gate.waiting() === 6, 'every episode waits for its policy', 60_000);
    expect(await stage.containers(doomed.id)).toHaveLength(3);
    expect(await socketDirectories(doomed.pid)).toHaveLength(1);

    doomed.kill('SIGKILL');
    expect(await doomed.ended).toMatchObject({ signal: 'SIGKILL' });
    gate.open();
    const { code, stdout } = await follower.ended;
    expect(code).toBe(0);
    const results = parseResults(stdout);
    expect(placesOf(results)).toEqual(places(keys, 2));
    expect(new Set(results.map(({ worker }) => worker))).toEqual(new Set([other.id]));
    expect(results.map(({ attempt }) => attempt).sort()).toEqual([1, 1, 1, 2, 2, 2]);
    for (const { status, reward, sequences } of results) {
      expect([status, reward, sequences.length]).toEqual(['completed', 1, 1]);
    }

    const reaped = await stage.run(['reap']);
    expect(reaped.code, reaped.stderr).toBe(0);
    expect(await stage.containers()).toEqual([]);
    expect(await socketDirectories(doomed.pid)).toEqual([]);
    // What lives is left alone.
    expect(await socketDirectories(other.pid)).toHaveLength(1);
    other.kill('SIGTERM');
    expect(await other.ended).toMatchObject({ code: 0 });
    expect(await socketDirectories(other.pid)).toEqual([]);
  });

  test('by SIGTERM are handed off, and no attempt is counted', async () => {
    await using gate = await openPolicyGate(policy.url);
    await using stage = await openStage({ ROLLPOOL_POLICY_URL: gate.url });
    gate.hold();
    await stage.enqueue(
      'handed-off',
      keys.map((key) => smallTask(key)),
    );
    const leaving = await stage.worker(['--concurrency', '3']);
    await until(() => gate.waiting() === 3, 'every episode waits for its policy', 60_000);
    expect(await running(stage, leaving.id)).toBe(true);

    leaving.kill('SIGTERM');
    expect(await leaving.ended).toMatchObject({ code: 0, signal: null });
    expect(await stage.containers()).toEqual([]);
    expect(await socketDirectories(leaving.pid)).toEqual([]);

    gate.open();
    const other = await stage.worker(['--concurrency', '3']);
    const results = await stage.results('handed-off');
    expect(placesOf(results)).toEqual(places(keys, 1));
    for (const { attempt, worker, status } of results) {
      expect([attempt, worker, status]).toEqual([1, other.id, 'completed']);
    }
  });

  test('by a second SIGTERM are left as they are, at once, for others and for rollpool reap', async () => {
    await using gate = await openPolicyGate(policy.url);
    await using stage = await openStage({ ROLLPOOL_POLICY_URL: gate.url });
    await using relay = await openDockerRelay(stage.directory);
    gate.hold();
    await stage.enqueue('stuck', [smallTask('stuck')]);
    const worker = await stage.worker(['--concurrency', '1'], { DOCKER_HOST: relay.host });
    await until(() => gate.waiting() === 1, 'the episode waits for its policy', 60_000);

    // A daemon that hangs: the first signal waits for it, the second does not.
    relay.freeze();
    worker.kill('SIGTERM');
    await worker.says(/handing off/, 'the worker hands off');
    const before = performance.now();
    worker.kill('SIGTERM');
    expect(await worker.ended).toMatchObject({ code: 1 });
    expect(performance.now() - before).toBeLessThan(5_000);

    await stage.run(['reap']);
    expect(await stage.containers()).toEqual([]);
    expect(await socketDirectories(worker.pid)).toEqual([]);
  });

  test('because rollpool run was killed are handed off, and the same command finishes them', async () => {
    await using gate = await openPolicyGate(policy.url);
    await using stage = await openStage({ ROLLPOOL_POLICY_URL: gate.url });
    gate.hold();
    const tasks = await stage.file('tasks.json', [smallTask('orphaned')]);
    const out = join(stage.directory, 'out');
    const args = ['run', tasks, '--processes', '1', '--out', out];
    const killed = stage.start(args);
    await killed.until(() => gate.waiting() === 1, 'the episode waits for its policy');
    const [worker] = await stage.queue.listWorkers();
    killed.kill('SIGKILL');
    await killed.ended;
    await until(async () => (await stage.queue.listWorkers()).length === 0, 'its worker says good-bye');
    expect(await stage.containers()).toEqual([]);
    await until(async () => (await socketDirectories(worker!.pid)).length === 0, 'its sockets are gone');

    gate.open();
    const again = await stage.run(args);
    expect(again.code, again.stderr).toBe(0);
    const results = await readResults(out);
    expect(results.map(({ attempt, status }) => [attempt, status])).toEqual([[1, 'completed']]);
  });
});
