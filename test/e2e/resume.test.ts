import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { writeFile } from 'node:fs/promises';
import { startScriptedPolicy, type ScriptedPolicy } from '../../src/policy/index.ts';
import { haveDocker } from '../sandbox/docker-daemon.ts';
import { importBareImage } from './images.ts';
import { openPolicyGate } from './policy-gate.ts';
import { smallScripts, smallTask } from './small-tasks.ts';
import { openStage, places, placesOf, readResults } from './stage.ts';

describe('rollpool run', { timeout: 180_000 }, () => {
  let policy: ScriptedPolicy;
  beforeAll(async () => {
    policy = await startScriptedPolicy({ scripts: smallScripts(), seed: 1 });
  });
  afterAll(async () => policy[Symbol.asyncDispose]());

  test('goes on where Ctrl-C stopped it, and runs nothing twice', async () => {
    await using gate = await openPolicyGate(policy.url);
    await using stage = await openStage({ ROLLPOOL_POLICY_URL: gate.url });
    const out = join(stage.directory, 'out');
    const keys = ['one', 'two', 'three'];
    const tasks = await stage.file(
      'tasks.json',
      keys.map((key) => smallTask(key)),
    );
    const args = ['run', tasks, '--sandbox', 'local', '--out', out, '--processes', '1', '--concurrency', '1'];
    // Two turns an episode: the first one ends, the second one is in the middle.
    gate.hold(3);
    const first = stage.start(args);
    await first.until(() => gate.waiting() === 1, 'the second episode is in the middle');
    const [run] = await stage.queue.listRuns();
    await first.until(
      async () => (await stage.queue.runStatus(run!.run_id))?.episodes.delivered === 1,
      'the first result is there',
    );
    first.kill('SIGINT');
    const interrupted = await first.ended;
    expect(interrupted).toMatchObject({ code: 1, signal: null });
    expect(interrupted.stderr).toContain('interrupted: the same command goes on where this one stopped');
    const before = await readResults(out);
    expect(before).toHaveLength(1);
    const calls = gate.seen();

    gate.open();
    const second = await stage.run(args);
    expect(second.code, second.stderr).toBe(0);
    expect(second.stderr).toContain(`run ${run!.run_id}: 0 episodes added, 3 were there`);
    const results = await readResults(out);
    expect(placesOf(results)).toEqual(places(keys, 1));
    expect(results.find(({ episode_id }) => episode_id === before[0]!.episode_id)).toEqual(before[0]);
    expect(results.map(({ attempt }) => attempt)).toEqual([1, 1, 1]);
    expect(gate.seen() - calls).toBe(4);

    // Once more: everything is there, and no worker has to start.
    const third = await stage.run(args);
    expect(third.code, third.stderr).toBe(0);
    expect(gate.seen() - calls).toBe(4);
    expect(placesOf(await readResults(out))).toEqual(places(keys, 1));
  });

  test('--retry-failed runs again what failed, once its cause is mended', async () => {
    await using stage = await openStage({ ROLLPOOL_POLICY_URL: policy.url });
    const out = join(stage.directory, 'out');
    const mended = join(stage.directory, 'mended');
    // A verifier that is not there (exit 127) is the task's fault.
    const verify = { commands: ['test "$(cat answer.txt)" = 42', `test -e ${mended} || no-such-verifier`] };
    const tasks = await stage.file('tasks.json', [smallTask('good'), smallTask('broken', { verify })]);
    const args = ['run', tasks, '--sandbox', 'local', '--samples', '2', '--out', out, '--processes', '1'];
    expect(await stage.run(args)).toMatchObject({ code: 1 });
    const before = await readResults(out);
    for (const { task_key, status, failure, reward } of before) {
      expect([status, failure?.class ?? null, reward]).toEqual(
        task_key === 'good' ? ['completed', null, 1] : ['failed', 'task', null],
      );
    }

    await writeFile(mended, '');
    // Without the flag what has its result stays.
    expect(await stage.run(args)).toMatchObject({ code: 1 });
    const retried = await stage.run([...args, '--retry-failed']);
    expect(retried.code, retried.stderr).toBe(0);
    expect(retried.stderr).toMatch(/2 episodes added, 2 were there, 2 again/);
    const results = await readResults(out);
    expect(placesOf(results)).toEqual(places(['broken', 'good'], 2));
    const idsOf = (of: typeof results, key: string): string[] =>
      of.flatMap(({ task_key, episode_id }) => (task_key === key ? [episode_id] : [])).sort();
    expect(idsOf(results, 'good')).toEqual(idsOf(before, 'good'));
    for (const id of idsOf(before, 'broken')) expect(idsOf(results, 'broken')).not.toContain(id);
    for (const { status, reward } of results) expect([status, reward]).toEqual(['completed', 1]);
  });

  test.runIf(haveDocker)('fails only the episodes whose image is at fault', async () => {
    await using stage = await openStage({ ROLLPOOL_POLICY_URL: policy.url });
    await using bare = await importBareImage(`rollpool-e2e-${process.pid}:bare`);
    const out = join(stage.directory, 'out');
    const tasks = await stage.file('tasks.json', [
      smallTask('good'),
      smallTask('missing', { sandbox: { image: 'No Such Image' } }),
      smallTask('bare', { sandbox: { image: bare.name } }),
    ]);
    const args = ['run', tasks, '--out', out, '--processes', '1'];
    expect(await stage.run(args)).toMatchObject({ code: 1 });
    const ends = (await readResults(out)).map(({ task_key, status, attempt, failure }) => [
      task_key,
      [status, attempt, failure?.class, failure?.phase, failure?.code],
    ]);
    // The task's fault is not tried again.
    expect(Object.fromEntries(ends)).toEqual({
      good: ['completed', 1, undefined, undefined, undefined],
      missing: ['failed', 1, 'task', 'boot', 'image_missing'],
      bare: ['failed', 1, 'task', 'boot', 'no_bash'],
    });
    expect(await stage.containers()).toEqual([]);
  });
});
