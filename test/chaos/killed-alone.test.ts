import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { crashPoints } from '../../src/observe/index.ts';
import { actPlainly } from './act-plainly.ts';
import { openPlaces } from './act-in-place.ts';
import { crashTable, inPlace } from './crash-table.ts';
import { expectExactlyOnce, finished } from './exactly-once.ts';
import { startProcess } from './processes.ts';
import { openScene, openStage, type Stage } from './scene.ts';

let stage: Stage;

beforeAll(async () => {
  stage = await openStage();
});
afterAll(async () => {
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
      const place = inPlace(crashTable[point].acts);
      await using places = place === null ? null : await openPlaces(stage.setting, place, pool.options);
      const survivor = await pool.worker(places?.process ?? actPlainly);
      await finished(pool);
      await expectExactlyOnce(pool, expected);
      // Before its places.
      await survivor.close();
    },
  );
});
