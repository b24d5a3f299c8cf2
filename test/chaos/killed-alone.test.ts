import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { crashPoints } from '../../src/observe/index.ts';
import { actPlainly } from './act-plainly.ts';
import { openSandboxed } from './act-sandboxed.ts';
import { crashTable } from './crash-table.ts';
import { expectExactlyOnce, finished } from './exactly-once.ts';
import { startProcess } from './processes.ts';
import { openScene, openStage, type Stage } from './scene.ts';

let stage: Stage;
let sandboxed: Awaited<ReturnType<typeof openSandboxed>>;

beforeAll(async () => {
  stage = await openStage();
  sandboxed = await openSandboxed(stage.setting);
});
afterAll(async () => {
  await sandboxed[Symbol.asyncDispose]();
  await stage[Symbol.asyncDispose]();
});

it('every crash point is in the table', () => {
  expect(Object.keys(crashTable).sort()).toEqual([...crashPoints].sort());
});

describe('a worker that is alone and killed', () => {
  it.concurrent.each(crashPoints)(
    'at %s loses nothing and leaves nothing twice',
    { timeout: 120_000 },
    async (point) => {
      await using scene = await openScene(point, stage);
      await using doomed = startProcess();
      doomed.open(scene.doomed);
      expect(await doomed.ended).toBe('SIGKILL');

      const { pool, expected } = scene;
      await pool.feeder();
      await pool.reconciler();
      await pool.worker(crashTable[point].acts === 'sandboxed' ? sandboxed.process : actPlainly);
      await finished(pool);
      await expectExactlyOnce(pool, expected);
    },
  );
});
