import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { openPool, tasksOf } from '../queue/pool.ts';
import { until } from '../support/wait.ts';
import { expectExactlyOnce, finished } from './exactly-once.ts';
import { serve, starts, startTwo } from './two-processes.ts';

let two: ReturnType<typeof startTwo>;
beforeAll(() => {
  two = startTwo();
});
afterAll(async () => {
  await two[Symbol.asyncDispose]();
});

const expected = { groups: 4, samples: 2 };

describe('a worker that shuts down beside a live twin', () => {
  it.concurrent.each(['handoff', 'now', 'drain'] as const)(
    'by %s loses nothing and counts no attempt',
    { timeout: 120_000 },
    async (mode) => {
      await using pool = await openPool();
      const [first, twin] = two.both;
      // What it drains it finishes; otherwise its episodes would take for ever.
      serve(first, mode, pool, { concurrency: 3, work_ms: mode === 'drain' ? 1_000 : 600_000 });
      await first.wait('opened', mode);
      await pool.add(tasksOf(expected.groups), { samples: expected.samples });
      await until(() => starts([first], mode).length === 3, 'the first is at work');
      serve(twin, mode, pool, { concurrency: 1, work_ms: 50 });
      await twin.wait('started', mode);
      await first.close(mode, mode);
      await finished(pool);
      const results = await expectExactlyOnce(pool, expected);
      expect(results.map(({ summary }) => summary.attempt)).toEqual(results.map(() => 1));
      const again = starts(two.both, mode).length - results.length;
      expect(again).toBe(mode === 'drain' ? 0 : 3);
      await twin.close(mode);
    },
  );
});
