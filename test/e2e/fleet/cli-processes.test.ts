import { existsSync, readdirSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { startScriptedPolicy, type ScriptedPolicy } from '../../../src/policy/index.ts';
import { until } from '../../support/wait.ts';
import { openPolicyGate } from '../policy-gate.ts';
import { openStage, parseResults, places, placesOf, readResults } from '../stage.ts';
import { messageScripts, messageTasks, startFleet, workshopMark } from './cli-stage.ts';

/** Locks that run out within seconds, so that what a killed worker had runs again within seconds. */
const shortLocks = {
  ROLLPOOL_LOCK_SECONDS: '6',
  ROLLPOOL_LOCK_RENEW_SECONDS: '1',
  ROLLPOOL_STALLED_SECONDS: '1',
};
/** Whoever needs Docker or the Claude Code CLI fails. */
const bareMachine = { DOCKER_HOST: 'unix:///nowhere/docker.sock', ROLLPOOL_CLAUDE_CLI: '/nowhere/claude' };
const key = `fleet-key-${process.pid}`;
const lane = ['--lanes', 'fleet'];

function directoriesOf(pid: number): string[] {
  return readdirSync(tmpdir()).filter((name) => name.includes(`-${pid}-`));
}

describe('Fleet episodes on workers of their own', { timeout: 180_000 }, () => {
  let policy: ScriptedPolicy;
  beforeAll(async () => {
    policy = await startScriptedPolicy({ scripts: messageScripts(), seed: 1 });
  });
  afterAll(async () => policy[Symbol.asyncDispose]());

  test('run again elsewhere when their worker is killed, and what it left in the service is removed', async () => {
    await using gate = await openPolicyGate(policy.url, workshopMark);
    await using stage = await openStage({ ...shortLocks, ...bareMachine, ROLLPOOL_POLICY_URL: gate.url });
    const fleet = await startFleet(stage, key);
    const tasks = await stage.file('tasks.json', messageTasks('one', 'two'));
    // The second turn of every episode waits: its instance has answered a call by then.
    gate.hold(4);
    const enqueued = await stage.run(['enqueue', tasks, '--samples', '2', '--run-id', 'killed']);
    expect(enqueued, enqueued.stderr).toMatchObject({
      code: 0,
      stdout: 'run killed: 4 episodes added, 0 were there\n',
    });
    const follower = stage.start(['results', 'killed', '--follow', '--json']);
    const [doomed, other] = await Promise.all([
      stage.worker([...lane, '--concurrency', '2'], fleet.env),
      stage.worker([...lane, '--concurrency', '2'], fleet.env),
    ]);
    await until(() => gate.waiting() === 4, 'every episode waits for its second turn', 60_000);
    const left = (await fleet.instancesOf(doomed.id)).map(({ instance_id }) => instance_id);
    const living = (await fleet.instancesOf(other.id)).map(({ instance_id }) => instance_id);
    expect([left.length, living.length]).toEqual([2, 2]);

    doomed.kill('SIGKILL');
    expect(await doomed.ended).toMatchObject({ signal: 'SIGKILL' });
    // A wrong key is no reason to leave undone what needs none.
    const locked = await stage.run(['reap', '--json'], { ...fleet.env, FLEET_API_KEY: 'another-key' });
    const refused = JSON.parse(locked.stdout) as { skipped: string[] };
    expect(refused.skipped.join('\n')).toMatch(/fleet was not looked at: .*FLEET_API_KEY/);
    expect(locked.stdout).not.toContain('another-key');
    expect(await fleet.instancesOf(doomed.id)).toHaveLength(2);

    const reaped = await stage.run(['reap', '--json'], fleet.env);
    expect(reaped.code, reaped.stderr).toBe(0);
    const report = JSON.parse(reaped.stdout) as { removed: string[]; kept: { id: string; why: string }[] };
    for (const id of left) expect(report.removed).toContain(`fleet ${id}`);
    const alive = `its worker ${other.id} is alive`;
    for (const id of living) expect(report.kept).toContainEqual({ id, why: alive });
    expect((await fleet.instances()).map(({ instance_id }) => instance_id).sort()).toEqual(living.sort());

    gate.open();
    const { code, stdout } = await follower.ended;
    expect(code).toBe(0);
    const results = parseResults(stdout);
    expect(placesOf(results)).toEqual(places(['one', 'two'], 2));
    expect(new Set(results.map(({ worker }) => worker))).toEqual(new Set([other.id]));
    expect(results.map(({ attempt }) => attempt).sort()).toEqual([1, 1, 2, 2]);
    for (const { status, reward, grades } of results) {
      expect([status, reward, grades]).toEqual(['completed', 1, { exact: 1, forked: 0, untrainable: 0 }]);
    }
    expect(await fleet.instances()).toEqual([]);

    other.kill('SIGTERM');
    expect(await other.ended).toMatchObject({ code: 0 });
    fleet.kill('SIGTERM');
    expect(await fleet.ended).toMatchObject({ code: 0, stderr: '' });
    for (const { pid } of [doomed, other, fleet]) expect(directoriesOf(pid)).toEqual([]);
  });

  test('that hang in a call are handed off by SIGTERM, swept when killed, and ended by rollpool cancel', async () => {
    await using gate = await openPolicyGate(policy.url, workshopMark);
    await using stage = await openStage({ ...shortLocks, ...bareMachine, ROLLPOOL_POLICY_URL: gate.url });
    const fleet = await startFleet(stage, key);
    await fleet.fault({ kind: 'tool_hang', tool: 'send_message', times: 'always' });
    await stage.enqueue('moved', messageTasks('one', 'two'));
    // The second turn of both was asked for, and makes the call that hangs.
    const calling = async (worker: string, seen: number): Promise<boolean> =>
      gate.seen() === seen && gate.answered() === seen && (await fleet.instancesOf(worker)).length === 2;

    const leaving = await stage.worker([...lane, '--concurrency', '2'], fleet.env);
    await until(async () => calling(leaving.id, 4), 'both episodes run', 60_000);
    const status = await stage.run(['status']);
    expect(status.stdout).toMatch(/│ fleet +│ 0 +│ 2 +│ 0 +│/);
    expect(status.stdout).toMatch(new RegExp(`│ ${leaving.id} +│[^\\n]*│ fleet=2 +│`));
    leaving.kill('SIGTERM');
    expect(await leaving.ended).toMatchObject({ code: 0, signal: null });
    expect(await fleet.instances()).toEqual([]);
    expect(directoriesOf(leaving.pid)).toEqual([]);

    const killed = await stage.worker([...lane, '--concurrency', '2'], fleet.env);
    await until(async () => calling(killed.id, 8), 'both episodes run again', 60_000);
    killed.kill('SIGKILL');
    await killed.ended;
    expect(await fleet.instancesOf(killed.id)).toHaveLength(2);

    // The sweep at its start finds what the dead one left.
    const last = await stage.worker([...lane, '--concurrency', '2'], fleet.env);
    await until(async () => (await fleet.instancesOf(killed.id)).length === 0, 'they are swept', 60_000);
    // Last of all: they say which workers are dead.
    await until(() => directoriesOf(killed.pid).length === 0, 'its directories are swept', 60_000);
    await fleet.clearFaults();
    const results = await stage.results('moved');
    expect(placesOf(results)).toEqual(places(['one', 'two'], 1));
    for (const { attempt, worker, status: how, reward } of results) {
      // The hand-off was not counted, the death was.
      expect([attempt, worker, how, reward]).toEqual([2, last.id, 'completed', 1]);
    }

    await fleet.fault({ kind: 'tool_hang', tool: 'send_message', times: 'always' });
    await stage.enqueue('ended', messageTasks('one', 'two', 'three'));
    await until(async () => (await fleet.instancesOf(last.id)).length === 2, 'it is busy', 60_000);
    expect((await stage.run(['cancel', 'ended'])).code).toBe(0);
    const ended = await stage.results('ended');
    expect(ended.map(({ status: how, reward }) => [how, reward])).toEqual([
      ['cancelled', null],
      ['cancelled', null],
      ['cancelled', null],
    ]);
    await until(async () => (await fleet.instances()).length === 0, 'the instances are gone');
  });

  test('wait for a place in the service together, and none of that counts as an attempt', async () => {
    await using stage = await openStage({ ...bareMachine, ROLLPOOL_POLICY_URL: policy.url });
    const fleet = await startFleet(stage, key, ['--instance-limit', '2']);
    await fleet.fault({ kind: 'tool_slow', ms: 50, times: 'always' });
    const tasks = await stage.file('tasks.json', messageTasks('one', 'two'));
    const out = join(stage.directory, 'out');
    const shared = ['--processes', '2', '--concurrency', '16'];
    // On the lane of this run, but not of this run.
    await stage.enqueue('other', messageTasks('one'));
    const ended = await stage.run(['run', tasks, '--samples', '5', ...shared, '--out', out], fleet.env);
    expect(ended.code, ended.stderr).toBe(0);
    expect(await stage.queue.runStatus('other')).toMatchObject({ episodes: { queued: 1, delivered: 0 } });
    // A service of its own was named: the run brings none.
    expect(ended.stderr).not.toContain('local Fleet');
    const results = await readResults(out);
    expect(placesOf(results)).toEqual(places(['one', 'two'], 5));
    for (const { attempt, status, reward } of results) {
      expect([attempt, status, reward]).toEqual([1, 'completed', 1]);
    }
    const waited = results.map(({ metrics }) => Number(metrics['environment_wait_ms'] ?? 0));
    expect(Math.max(...waited)).toBeGreaterThan(0);
    expect(await fleet.instances()).toEqual([]);
  });

  test('of a run that was killed are finished by the same command, though its local Fleet is dead', async () => {
    await using gate = await openPolicyGate(policy.url, workshopMark);
    await using stage = await openStage({ ...bareMachine, ROLLPOOL_POLICY_URL: gate.url });
    const tasks = await stage.file('tasks.json', messageTasks('one', 'two', 'three'));
    const out = join(stage.directory, 'out');
    const args = ['run', tasks, '--processes', '1', '--concurrency', '1', '--out', out];
    // Three turns an episode: the first one ends, the second one is in the middle.
    gate.hold(4);
    const killed = stage.start(args);
    const [, url] = await killed.says(/local Fleet: (\S+)/, 'it brings a local Fleet');
    await killed.until(() => gate.waiting() === 1, 'the second episode is in the middle');
    const [run] = await stage.queue.listRuns();
    await killed.until(
      async () => (await stage.queue.runStatus(run!.run_id))?.episodes.delivered === 1,
      'the first result is there',
    );
    const [worker] = await stage.queue.listWorkers();
    expect(directoriesOf(killed.pid)).toHaveLength(1);
    killed.kill('SIGKILL');
    await killed.ended;
    await expect(fetch(url!)).rejects.toThrow();
    await until(async () => (await stage.queue.listWorkers()).length === 0, 'its worker says good-bye');
    await until(() => !existsSync(`/proc/${worker!.pid}`), 'its worker has ended');

    gate.open();
    const again = await stage.run(args);
    expect(again.code, again.stderr).toBe(0);
    expect(again.stderr).toContain('0 episodes added, 3 were there');
    const results = await readResults(out);
    expect(placesOf(results)).toEqual(places(['one', 'two', 'three'], 1));
    for (const { attempt, status, reward } of results) {
      expect([attempt, status, reward]).toEqual([1, 'completed', 1]);
    }
    // What the first one could not remove goes with the second one.
    expect(directoriesOf(killed.pid)).toEqual([]);
    expect(directoriesOf(worker!.pid)).toEqual([]);
  });
});
