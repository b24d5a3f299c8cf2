import { expect, it } from 'vitest';
import { fleetTaskSchema } from '../../../src/contracts/index.ts';
import { fleetRunId } from '../../../src/fleet/instance-owner.ts';
import { FleetClient, createBody } from '../../../src/fleet/api/index.ts';
import { createFleetProvider } from '../../../src/fleet/index.ts';
import { shippedEnvironments, startLocalFleet } from '../../../src/local-fleet/index.ts';
import { silentLogger } from '../../../src/observe/index.ts';
import { createQueue } from '../../../src/queue/index.ts';
import { newWorkerId, startHeartbeat } from '../../../src/queue/workers-alive.ts';
import { reapOnce } from '../../../workers/reaper.ts';
import { freshPrefix, testRedisUrl } from '../../support/redis.ts';
import { recordingGate } from '../../fleet/creation-record.ts';

const fleetKey = 'the-fleet-key';
const task = fleetTaskSchema.parse({
  task_key: 't',
  kind: 'fleet',
  prompt: 'p',
  env_key: 'bike-workshop',
  verifier_code: 'x',
});

it('a pool of the same name with another Redis keeps its environments; those of our dead workers go', async () => {
  await using fleet = await startLocalFleet({ environments: await shippedEnvironments(), apiKey: fleetKey });
  const options = { baseUrl: fleet.url, apiKey: fleetKey };
  await using client = new FleetClient(options);
  await using provider = createFleetProvider({ ...options, gate: recordingGate().gate });
  const prefix = freshPrefix();
  const queue = await createQueue({ redisUrl: testRedisUrl(), prefix, log: silentLogger });
  try {
    const [dead, alive, stranger] = [newWorkerId(), newWorkerId(), newWorkerId()];
    const beats = [dead, alive].map((worker) =>
      startHeartbeat({
        redis: queue.redis,
        names: queue.names,
        everyMs: 3_600_000,
        ttlMs: 3_600_000,
        record: () => ({ worker, seen_at: Date.now(), lanes: {} }) as never,
      }),
    );
    const [first, second] = await Promise.all(beats);
    await first!.stop();
    const ids: Record<string, string> = {};
    for (const worker of [dead, alive, stranger]) {
      const owner = { pool: prefix, worker, run_id: 'r', nonce: worker.slice(-6) };
      const run_id = fleetRunId({ owner, ttl_seconds: 600 });
      const body = createBody(task, {
        run_id,
        ttl_seconds: 600,
        heartbeat_interval: 300,
        max_wait_seconds: 30,
      });
      ids[worker] = (await client.createInstance(body, { region: null })).instance_id;
    }
    const report = await reapOnce({ pool: prefix, providers: [provider], queue });
    expect(report.removed).toEqual([`fleet ${ids[dead]}`]);
    expect(report.kept.map(({ id }) => id).sort()).toEqual([ids[alive], ids[stranger]].sort());
    await second!.stop();
  } finally {
    await queue.close();
  }
});
