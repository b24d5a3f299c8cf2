import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { startScriptedPolicy, type ScriptedPolicy } from '../../src/policy/index.ts';
import { startLockedRedis } from '../cli/locked-redis.ts';
import { smallScripts } from '../e2e/small-tasks.ts';
import { openStage } from '../e2e/stage.ts';
import { until } from '../support/wait.ts';
import { childProcesses, isAlive, type SeenProcess } from './child-processes.ts';

const key = 'the-policy-key';
const password = 'the-redis-password';
const local = ['--lanes', 'claude_code-local', '--allow-local', '--concurrency', '1'];

/** The worker processes of a supervisor; where it runs from source, its compiler is a child as well. */
function workersOf(pid: number): SeenProcess[] {
  return childProcesses(pid).filter(({ command }) => command.includes(' worker '));
}

// Processes are read from /proc.
describe.runIf(process.platform === 'linux')('worker --processes 2', { timeout: 90_000 }, () => {
  let policy: ScriptedPolicy;
  beforeAll(async () => {
    policy = await startScriptedPolicy({ scripts: smallScripts(), apiKey: key });
  });
  afterAll(async () => policy[Symbol.asyncDispose]());

  test('keeps two alive, shows no secret to ps, and hands all off at SIGTERM', async () => {
    await using stage = await openStage({ ROLLPOOL_POLICY_URL: policy.url, ROLLPOOL_POLICY_API_KEY: key });
    await using redis = await startLockedRedis(stage.directory, password);
    const parent = stage.start(['worker', ...local, '--processes', '2'], {
      REDIS_URL: `unix://${redis.socket}?password=${password}`,
    });
    await parent.says(/"workers ready"/, 'both are ready');
    const first = workersOf(parent.pid);
    expect(first).toHaveLength(2);
    for (const { command } of [...first, ...childProcesses(process.pid)].filter(
      (one) => !/redis-server/.test(one.command),
    )) {
      expect(command).not.toContain(key);
      expect(command).not.toContain(password);
    }
    // Their starts together are gated to the cores.
    for (const { command } of first) expect(command).toMatch(/--cli-starts \d+/);

    const [killed] = first;
    process.kill(killed!.pid, 'SIGKILL');
    await parent.says(/"SIGKILL".*started again/, 'the parent says so');
    const second = await until(() => {
      const now = workersOf(parent.pid);
      return now.length === 2 && !now.some(({ pid }) => pid === killed!.pid) ? now : null;
    }, 'another takes its place');
    // Three of them have said so by now: the two at first, and the new one.
    await until(() => parent.stderr().match(/"worker ready"/g)?.length === 3, 'the new one is ready');

    parent.kill('SIGTERM');
    expect(await parent.ended).toMatchObject({ code: 0, signal: null });
    expect(second.filter(({ pid }) => isAlive(pid))).toEqual([]);
    expect(`${parent.stderr()}${parent.stdout()}`).not.toMatch(new RegExp(`${key}|${password}`));
  });

  test('leave by themselves when their parent is killed', async () => {
    await using stage = await openStage({ ROLLPOOL_POLICY_URL: policy.url, ROLLPOOL_POLICY_API_KEY: key });
    const parent = stage.start(['worker', ...local, '--processes', '2']);
    await parent.says(/"workers ready"/, 'both are ready');
    const workers = workersOf(parent.pid);
    expect(await stage.queue.listWorkers()).toHaveLength(2);
    process.kill(parent.pid, 'SIGKILL');
    await until(() => !workers.some(({ pid }) => isAlive(pid)), 'both are gone');
    // Who hands off also takes its name from the list.
    expect(await stage.queue.listWorkers()).toEqual([]);
    await parent.ended;
  });
});
