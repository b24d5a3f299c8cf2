import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { startScriptedPolicy, type ScriptedPolicy } from '../../src/policy/index.ts';
import { DockerProvider } from '../../src/sandbox/index.ts';
import { haveDocker } from '../sandbox/docker-daemon.ts';
import { openPolicyGate } from './policy-gate.ts';
import { smallScripts, smallTask } from './small-tasks.ts';
import { openStage, readResults, type Stage } from './stage.ts';

async function withoutKept(stage: Stage): Promise<void> {
  await using provider = new DockerProvider();
  for (const { name } of await provider.listSnapshots(stage.pool)) await provider.removeSnapshot(name);
}

describe.runIf(haveDocker)('rollpool regrade', { timeout: 240_000 }, () => {
  let policy: ScriptedPolicy;
  beforeAll(async () => {
    policy = await startScriptedPolicy({ scripts: smallScripts(), seed: 1 });
  });
  afterAll(async () => policy[Symbol.asyncDispose]());

  test('runs the verifier of today on what agents left, calls no model and names the old results', async () => {
    await using gate = await openPolicyGate(policy.url);
    await using stage = await openStage({ ROLLPOOL_POLICY_URL: gate.url, ROLLPOOL_KEEP_SANDBOXES: '3' });
    try {
      // Two verifiers are wrong: one fails what is right, one cannot run at all. `left-out` is the fourth, so the first goes.
      const tasks = await stage.file('tasks.json', [
        smallTask('oldest'),
        smallTask('too-strict', { verify: { commands: ['test "$(cat answer.txt)" = 43'] } }),
        smallTask('broken', { verify: { commands: ['no-such-verifier'] } }),
        smallTask('right'),
      ]);
      const out = join(stage.directory, 'out');
      const ran = await stage.run([
        'run',
        tasks,
        '--run-id',
        'old',
        '--out',
        out,
        '--processes',
        '1',
        '--concurrency',
        '1',
      ]);
      expect(ran.code, ran.stderr).toBe(1);
      const old = new Map((await readResults(out)).map((result) => [result.task_key, result]));
      expect(old.get('too-strict')).toMatchObject({ reward: 0, status: 'completed' });
      expect(old.get('broken')).toMatchObject({ reward: null, status: 'failed' });
      expect(old.get('broken')?.sandbox?.snapshot).toMatchObject({
        status: 'completed',
        stop_reason: 'agent_done',
      });
      const calls = gate.seen();

      const better = await stage.file('better.json', [
        smallTask('oldest'),
        smallTask('too-strict'),
        smallTask('broken'),
        smallTask('another'),
      ]);
      const dry = await stage.run(['regrade', 'old', better, '--dry-run', '--json']);
      expect(dry.code, dry.stderr).toBe(0);
      expect(JSON.parse(dry.stdout)).toEqual({
        run_id: 'old',
        episodes: 2,
        never_kept: 0,
        gone: 1,
        without_task: 1,
      });
      const again = join(stage.directory, 'again');
      const args = ['regrade', 'old', better, '--new-run-id', 'new', '--out', again];
      const regraded = await stage.run(args);
      expect(regraded.code, regraded.stderr).toBe(0);
      expect(regraded.stderr).toContain(
        'left out: 1 not kept any more, or on another machine, 1 whose task is not in the file',
      );
      expect(regraded.stdout).toContain('2 of 2 rewards are other than they were');
      const results = await readResults(again);
      expect(results.map(({ task_key }) => task_key).sort()).toEqual(['broken', 'too-strict']);
      for (const result of results) {
        const before = old.get(result.task_key);
        expect(result).toMatchObject({
          run_id: 'new',
          reward: 1,
          status: 'completed',
          stop_reason: 'agent_done',
          sequences: [],
          usage: { calls: 0 },
          policy: before?.policy,
          regrade_of: {
            run_id: 'old',
            episode_id: before?.episode_id,
            attempt: 1,
            reward: before?.reward ?? null,
            snapshot: before?.sandbox?.snapshot?.name,
          },
        });
      }
      expect(gate.seen()).toBe(calls);
      expect(await stage.containers()).toEqual([]);

      // The same command again finds everything done, and the old results are as they were.
      const once = await stage.run(args);
      expect(once.code, once.stderr).toBe(0);
      expect((await readResults(again)).map(({ episode_id }) => episode_id).sort()).toEqual(
        results.map(({ episode_id }) => episode_id).sort(),
      );
      const dropped = await stage.run(['reap', '--kept', '--run-id', 'old', '--json']);
      const { removed } = JSON.parse(dropped.stdout) as { removed: string[] };
      expect(removed.filter((id) => id.startsWith('docker rollpool-kept:'))).toHaveLength(3);
      expect((await stage.results('old')).map(({ reward }) => reward).sort()).toEqual([0, 1, 1, null].sort());
    } finally {
      await withoutKept(stage);
    }
  });

  test('says in one line why there is nothing to grade again', async () => {
    await using stage = await openStage({ ROLLPOOL_POLICY_URL: policy.url });
    const tasks = await stage.file('tasks.json', [smallTask('one')]);
    const unknown = await stage.run(['regrade', 'nobody', tasks]);
    expect(unknown).toMatchObject({ code: 2, stderr: 'rollpool: there is no run nobody\n' });
    const ran = await stage.run([
      'run',
      tasks,
      '--run-id',
      'plain',
      '--sandbox',
      'local',
      '--processes',
      '1',
    ]);
    expect(ran.code, ran.stderr).toBe(0);
    const nothing = await stage.run(['regrade', 'plain', tasks]);
    expect(nothing.code).toBe(2);
    expect(nothing.stderr).toContain('left out: 1 never kept');
    expect(nothing.stderr).toContain('rollpool: nothing of run plain can be graded again');
  });
});
