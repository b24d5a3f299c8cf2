import { expect, test } from 'vitest';
import { createConsumer } from '../../src/queue/consumer/index.ts';
import { startScriptedPolicy } from '../../src/policy/index.ts';
import { haveDocker } from '../sandbox/docker-daemon.ts';
import { testRedisUrl } from '../support/redis.ts';
import { until } from '../support/wait.ts';
import { openPolicyGate } from './policy-gate.ts';
import { smallScripts, smallTask } from './small-tasks.ts';
import { openStage, places, placesOf } from './stage.ts';

test.runIf(haveDocker)(
  'rollpool cancel ends what runs on every worker and what waits, and closes the groups',
  { timeout: 180_000 },
  async () => {
    await using policy = await startScriptedPolicy({ scripts: smallScripts(), seed: 1 });
    await using gate = await openPolicyGate(policy.url);
    await using stage = await openStage({ ROLLPOOL_POLICY_URL: gate.url });
    gate.hold();
    const keys = ['one', 'two', 'three'];
    await stage.enqueue(
      'cancelled',
      keys.map((key) => smallTask(key)),
      { samples: 2 },
    );
    await Promise.all([stage.worker(['--concurrency', '2']), stage.worker(['--concurrency', '2'])]);
    await until(() => gate.waiting() === 4, 'both workers are busy', 60_000);
    expect(await stage.containers()).toHaveLength(4);

    const ended = await stage.run(['cancel', 'cancelled']);
    expect(ended).toMatchObject({ code: 0, stdout: 'run cancelled cancelled\n' });
    const results = await stage.results('cancelled');
    await until(async () => (await stage.containers()).length === 0, 'the containers are gone');
    expect(gate.waiting()).toBe(0);

    expect(placesOf(results)).toEqual(places(keys, 2));
    for (const { status, stop_reason, reward, failure } of results) {
      expect([status, stop_reason, reward, failure]).toEqual(['cancelled', 'cancelled', null, null]);
    }
    await using consumer = await createConsumer({ redisUrl: testRedisUrl(), prefix: stage.pool });
    const groups = await consumer.groups({
      run_id: 'cancelled',
      reader: 'test',
      minGroups: 3,
      timeoutMs: 10_000,
    });
    expect(groups.map(({ group }) => [group.task_key, group.delivered, group.scored]).sort()).toEqual([
      ['one', 2, 0],
      ['three', 2, 0],
      ['two', 2, 0],
    ]);

    const shown = await stage.run(['status', 'cancelled']);
    expect(shown.code).toBe(0);
    expect(shown.stdout).toMatch(/cancelled │ cancelled +│ 6\/6/);
    const again = await stage.run(['cancel', 'nobody']);
    expect(again).toMatchObject({ code: 2, stdout: '' });
    expect(again.stderr).toBe('rollpool: there is no run nobody that could be cancelled\n');
  },
);
