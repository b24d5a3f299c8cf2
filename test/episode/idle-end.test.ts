import { expect, it } from 'vitest';
import { idleBeforeTimeout } from '../../src/episode/idle-end.ts';

it('notes an agent that made no model call in the second half of its time, and only when that ended it', () => {
  const calls = [{ ended_at: 20_000 }, { ended_at: 10_000 }];
  expect(idleBeforeTimeout('timeout', calls, 120_000, 110)).toBe(100);
  expect(idleBeforeTimeout('timeout', calls, 60_000, 100)).toBeNull();
  expect(idleBeforeTimeout('agent_done', calls, 120_000, 110)).toBeNull();
  expect(idleBeforeTimeout('timeout', [], 120_000, 110)).toBeNull();
});
