import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { startScriptedPolicy, type ScriptedPolicy } from '../../src/policy/index.ts';
import { openPolicyGate } from '../e2e/policy-gate.ts';
import { smallScripts, smallTask } from '../e2e/small-tasks.ts';
import { openStage, placesOf, readResults, type Stage } from '../e2e/stage.ts';
import { haveDocker } from '../sandbox/docker-daemon.ts';
import { testRedisUrl } from '../support/redis.ts';
import { until } from '../support/wait.ts';
import { childProcesses, isAlive } from '../workers/child-processes.ts';
import { invoke } from './invoke.ts';

let policy: ScriptedPolicy;
beforeAll(async () => {
  policy = await startScriptedPolicy({ scripts: smallScripts(), seed: 1 });
});
afterAll(async () => policy[Symbol.asyncDispose]());

/** The defaults: no worker is killed here whose episodes another one takes over. */
const longLocks = {
  ROLLPOOL_LOCK_SECONDS: '60',
  ROLLPOOL_LOCK_RENEW_SECONDS: '10',
  ROLLPOOL_STALLED_SECONDS: '12',
};

/** Processes below a command, and theirs. */
function below(pid: number): number[] {
  return childProcesses(pid).flatMap((child) => [child.pid, ...below(child.pid)]);
}

async function tasksOf(stage: Stage, ...keys: string[]): Promise<string> {
  return stage.file(
    'tasks.json',
    keys.map((key) => smallTask(key)),
  );
}

describe('rollpool run', { timeout: 120_000 }, () => {
  test('hands off at Ctrl-C, and the same command goes on to the end', async () => {
    await using gate = await openPolicyGate(policy.url);
    await using stage = await openStage({ ...longLocks, ROLLPOOL_POLICY_URL: gate.url });
    gate.hold();
    const out = join(stage.directory, 'out');
    const command = [
      'run',
      await tasksOf(stage, 'one', 'two'),
      '--sandbox',
      'local',
      '--processes',
      '1',
      '--out',
      out,
    ];
    const interrupted = stage.start(command);
    await until(() => gate.waiting() === 2, 'both episodes wait for their policy', 60_000);
    const children = below(interrupted.pid);
    interrupted.kill('SIGINT');
    const first = await interrupted.ended;
    expect(first.code).toBe(1);
    expect(first.stderr).toContain('handing off running episodes; a second signal ends them at once\n');
    expect(first.stderr).toContain('interrupted: the same command goes on where this one stopped\n');
    expect(first.stderr).not.toContain('no worker serves');
    expect(children.filter(isAlive)).toEqual([]);

    gate.open();
    const second = await stage.run([...command, '--json']);
    expect(second.code, second.stderr).toBe(0);
    expect(second.stderr).toMatch(/^run tasks-\w{8}: 0 episodes added, 2 were there\n/);
    const said = JSON.parse(second.stdout) as { run_id: string; out: string; status: unknown };
    expect(said).toMatchObject({ out, status: { done: true, scored: 2, reward_mean: 1 } });
    const results = await readResults(out);
    expect(placesOf(results)).toEqual(['one/0', 'two/0']);
    expect(results.map(({ attempt, status }) => [attempt, status])).toEqual([
      [1, 'completed'],
      [1, 'completed'],
    ]);

    // A run that is done starts no worker, and shows what it came to.
    const third = await invoke(command, {
      REDIS_URL: testRedisUrl(),
      ROLLPOOL_PREFIX: stage.pool,
      ROLLPOOL_POLICY_URL: gate.url,
    });
    expect(third.code, third.stderr).toBe(0);
    expect(third.stdout).toMatch(/│ all +│ 2 +│ 1\.00/);
    expect(await readResults(out)).toHaveLength(2);
  });

  test.runIf(haveDocker)(
    'ends at once at a second Ctrl-C, and leaves no process and no container',
    async () => {
      await using gate = await openPolicyGate(policy.url);
      await using stage = await openStage({ ...longLocks, ROLLPOOL_POLICY_URL: gate.url });
      gate.hold();
      const command = ['run', await tasksOf(stage, 'one', 'two'), '--out', join(stage.directory, 'out')];
      const run = stage.start(command);
      await until(() => gate.waiting() === 2, 'both episodes wait for their policy', 60_000);
      const children = below(run.pid);
      expect(await stage.containers()).toHaveLength(2);
      run.kill('SIGINT');
      await run.says(/handing off/, 'it hands off');
      run.kill('SIGINT');
      expect((await run.ended).code).toBe(1);
      expect(children.filter(isAlive)).toEqual([]);
      expect(await stage.containers()).toEqual([]);
    },
  );

  test.runIf(haveDocker)('fails the task alone whose image cannot be, and says why', async () => {
    await using stage = await openStage({ ...longLocks, ROLLPOOL_POLICY_URL: policy.url });
    const out = join(stage.directory, 'out');
    const tasks = await stage.file('tasks.json', [
      smallTask('good'),
      smallTask('bad', { sandbox: { image: 'No Such Image' } }),
    ]);
    const { code, stdout, stderr } = await stage.run(['run', tasks, '--out', out]);
    expect(code, stderr).toBe(1);
    expect(stdout).toMatch(/│ bad +│ 1 .*image_missing 1/);
    expect(stderr).toContain(
      'bad: image_missing: sandbox.image: "No Such Image" is not the name of an image',
    );
    expect(stderr).toContain('2/2 episodes, 0 running, 1 failed, reward 1.000');
    const byTask = new Map((await readResults(out)).map((result) => [result.task_key, result]));
    expect(byTask.get('good')).toMatchObject({ status: 'completed', reward: 1 });
    expect(byTask.get('bad')).toMatchObject({ status: 'failed', reward: null, failure: { class: 'task' } });
  });

  test('says with the end of their log why its workers could not start, and ends with 1', async () => {
    await using leaving = await startScriptedPolicy({ scripts: smallScripts() });
    await using stage = await openStage({ ROLLPOOL_POLICY_URL: leaving.url });
    const out = join(stage.directory, 'out');
    const run = stage.start(['run', await tasksOf(stage, 'one'), '--sandbox', 'local', '--out', out]);
    // Its own look at the policy is over when it opens the workers' log; theirs comes when they have started.
    await until(() => existsSync(join(out, 'workers.log')), 'it starts its workers');
    leaving.fault({ kind: 'status', status: 500, times: 1_000 });
    const { code, stderr } = await run.ended;
    expect(code).toBe(1);
    expect(stderr).toMatch(
      /rollpool: a worker process could not start: exit code 2\. The end of .*workers\.log:\n/,
    );
    expect(stderr).toContain('the policy refused a plain call: HTTP 500');
    expect(stderr).not.toMatch(/^ {4}at /m);
  });
});
