import { expect, test } from 'vitest';
import type { Role, Turn } from '../../src/contracts/index.ts';
import { forksOf } from '../../src/trajectory/index.ts';

const sequence = (role: Role, agent_id: string, turns: number) => ({
  role,
  agent_id,
  turns: Array<Turn>(turns),
});

test('a call forks when it begins a sequence although its agent had one', () => {
  expect(forksOf([])).toEqual({ followed: 0, forked: 0 });
  expect(forksOf([sequence('main', 'main', 5)])).toEqual({ followed: 4, forked: 0 });
  expect(forksOf([sequence('main', 'main', 3), sequence('main', 'main', 2)])).toEqual({
    followed: 4,
    forked: 1,
  });
});

test('another agent forks nothing, and an auxiliary call follows none', () => {
  const agents = [sequence('main', 'main', 3), sequence('subagent', 'a', 2), sequence('subagent', 'b', 1)];
  const searches = [sequence('auxiliary', 'main', 1), sequence('auxiliary', 'main', 1)];
  expect(forksOf([...agents, ...searches])).toEqual({ followed: 3, forked: 0 });
});
