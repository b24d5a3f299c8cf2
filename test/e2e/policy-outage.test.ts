import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { startScriptedPolicy, type ScriptedPolicy } from '../../src/policy/index.ts';
import { openPolicyGate } from './policy-gate.ts';
import { bash, smallScripts, smallTask } from './small-tasks.ts';
import { openStage, places, placesOf, readResults } from './stage.ts';

const keys = ['one', 'two'];
/** How long the policy is away, milliseconds: longer than a call with all its retries may take. */
const outageMs = 4_000;
const turnSeconds = 2;

test(
  'a policy that stops in mid-run and comes back: its episodes are held, and none fails',
  { timeout: 180_000 },
  async () => {
    const turns = [
      { repeat: 3, turns: [{ tool_calls: [bash('echo {{turn}} >> answer.txt')] }] },
      { text: 'Done.' },
    ];
    const scripts = smallScripts([{ match: 'Task ', turns }]);
    const serve = (port: number): Promise<ScriptedPolicy> => startScriptedPolicy({ scripts, seed: 1, port });
    let policy = await serve(0);
    try {
      await using stage = await openStage({
        ROLLPOOL_POLICY_URL: policy.url,
        ROLLPOOL_TURN_SECONDS: String(turnSeconds),
        ROLLPOOL_AGENT_SECONDS: '60',
      });
      const verify = { commands: ['test "$(wc -l < answer.txt)" = 3'] };
      const tasks = await stage.file(
        'tasks.json',
        keys.map((key) => smallTask(key, { verify })),
      );
      const out = join(stage.directory, 'out');
      const command = stage.start(['run', tasks, '--sandbox', 'local', '--processes', '1', '--out', out]);
      const played = (): number => policy.samples().filter(({ script }) => script !== null).length;
      await command.until(() => played() >= 2, 'the episodes are in the middle');
      const { port } = policy;
      await policy[Symbol.asyncDispose]();
      await sleep(outageMs);
      policy = await serve(port);

      const { code, stderr } = await command.ended;
      expect(code, stderr).toBe(0);
      const results = await readResults(out);
      expect(placesOf(results)).toEqual(places(keys, 1));
      for (const { status, reward, attempt, timing, failure } of results) {
        expect([status, reward, attempt, failure]).toEqual(['completed', 1, 1, null]);
        expect(timing.hold_s).toBeGreaterThan((outageMs / 1000) * 0.5);
        expect(timing.hold_s).toBeLessThanOrEqual(timing.agent_s);
      }
    } finally {
      await policy[Symbol.asyncDispose]();
    }
  },
);

test(
  'a policy that answers 500 for longer than a turn may take: tried again, and at last a null, never a zero',
  { timeout: 180_000 },
  async () => {
    await using policy = await startScriptedPolicy({ scripts: smallScripts(), seed: 1 });
    await using gate = await openPolicyGate(policy.url);
    await using stage = await openStage({
      ROLLPOOL_POLICY_URL: gate.url,
      ROLLPOOL_TURN_SECONDS: String(turnSeconds),
      ROLLPOOL_MAX_ATTEMPTS: '2',
    });
    gate.fail();
    const tasks = await stage.file(
      'tasks.json',
      keys.map((key) => smallTask(key)),
    );
    const out = join(stage.directory, 'out');
    const args = ['--sandbox', 'local', '--processes', '1', '--run-id', 'failing', '--out', out];
    const command = stage.start(['run', tasks, ...args]);
    await command.until(
      async () => (await stage.queue.runStatus('failing'))?.retries === 2,
      'both episodes are to be tried again',
    );
    // From now on it answers for the first task alone.
    gate.fail('Task two.');
    const { code, stderr } = await command.ended;
    expect(code, stderr).toBe(1);
    const results = await readResults(out);
    expect(placesOf(results)).toEqual(places(keys, 1));
    for (const { task_key, status, stop_reason, reward, attempt, failure } of results) {
      expect([status, stop_reason, reward, attempt, failure?.class, failure?.phase]).toEqual(
        task_key === 'one'
          ? ['completed', 'agent_done', 1, 2, undefined, undefined]
          : ['failed', 'infra', null, 2, 'infra', 'agent'],
      );
    }
  },
);
