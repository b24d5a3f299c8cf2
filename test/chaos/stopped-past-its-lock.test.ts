import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { crashPoints } from '../../src/observe/index.ts';
import { crashTable } from './crash-table.ts';
import { expectExactlyOnce, finished } from './exactly-once.ts';
import { startProcess, type PoolProcess } from './processes.ts';
import { openScene, openStage, type Stage } from './scene.ts';

let stage: Stage;
let twin: PoolProcess;
/** Processes that have come through a scene and can be stopped again. */
const spare: PoolProcess[] = [];

beforeAll(async () => {
  stage = await openStage();
  twin = startProcess();
});
afterAll(async () => {
  await twin[Symbol.asyncDispose]();
  for (const child of spare) await child[Symbol.asyncDispose]();
  await stage[Symbol.asyncDispose]();
});

describe('a worker that is stopped past its lock and goes on when its twin has finished', () => {
  it.concurrent.each(crashPoints)('at %s adds nothing', { timeout: 120_000 }, async (point) => {
    await using scene = await openScene(point, stage);
    const { pool, expected } = scene;
    twin.open(scene.twin);
    const { worker } = await twin.wait('opened', point);
    await twin.wait('started', point);
    const doomed = spare.pop() ?? startProcess();
    try {
      const reached = doomed.atPoint();
      doomed.open({ ...scene.doomed, signal: 'SIGSTOP' });
      await reached;
      twin.go(point);
      await finished(pool);
      const before = await expectExactlyOnce(pool, expected);
      doomed.kill('SIGCONT');
      await doomed.close(point, 'drain');
      // Late as it is, it changes nothing and takes its own payload away.
      const results = await expectExactlyOnce(pool, expected);
      expect(results).toEqual(before);
      const payloads = await pool.redis.keys(`${pool.options.prefix!}:payload:*`);
      expect(payloads.sort()).toEqual(results.map(({ payload }) => payload).sort());
      const { published, part } = crashTable[point];
      const byTwin = results.filter(({ summary }) => summary.worker === worker);
      if (part === 'worker' && published) expect(byTwin.length).toBeLessThan(results.length);
      if (part === 'worker' && !published) expect(byTwin).toHaveLength(results.length);
    } finally {
      spare.push(doomed);
    }
    await twin.close(point);
  });
});
