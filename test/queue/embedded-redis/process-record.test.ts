import { expect, it } from 'vitest';
import { inSight, lookUp, recordOf } from '../../../src/queue/embedded-redis/index.ts';

it('tells a process from another one that got its number later', () => {
  const own = recordOf(process.pid)!;
  expect(lookUp(own)).toBe('alive');
  expect(lookUp({ ...own, started: `${own.started}0` })).toBe('dead');
  expect(lookUp({ ...own, host: 'another' })).toBe('elsewhere');
});

it.runIf(process.platform === 'linux')('knows which processes it could not see', () => {
  const own = recordOf(process.pid)!;
  const [boot, , start] = own.started.split(' ');
  expect(inSight(own)).toBe(true);
  expect(inSight({ ...own, started: `${boot} pid:[1] ${start}` })).toBe(false);
  // The machine was started anew since: whatever ran is gone.
  expect(inSight({ ...own, started: `0000 pid:[1] ${start}` })).toBe(true);
});
