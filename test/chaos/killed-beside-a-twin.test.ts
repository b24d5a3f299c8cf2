import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { crashPoints } from '../../src/observe/index.ts';
import { expectExactlyOnce, finished } from './exactly-once.ts';
import { startProcess, type PoolProcess } from './processes.ts';
import { openScene, openStage, type Stage } from './scene.ts';

let stage: Stage;
let twin: PoolProcess;

beforeAll(async () => {
  stage = await openStage();
  twin = startProcess();
});
afterAll(async () => {
  await twin[Symbol.asyncDispose]();
  await stage[Symbol.asyncDispose]();
});

describe('a worker that is killed while another one serves the same queue', () => {
  it.concurrent.each(crashPoints)(
    'at %s loses nothing and leaves nothing twice',
    { timeout: 120_000 },
    async (point) => {
      await using scene = await openScene(point, stage);
      const { pool, expected } = scene;
      // The twin keeps one episode, so that the others come to the process that is to be killed.
      twin.open(scene.twin);
      await twin.wait('started', point);
      await using doomed = startProcess();
      doomed.open(scene.doomed);
      expect(await doomed.ended).toBe('SIGKILL');
      twin.go(point);
      await finished(pool);
      await expectExactlyOnce(pool, expected);
      await twin.close(point);
    },
  );
});
