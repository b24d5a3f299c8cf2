import { describe, expect, it } from 'vitest';
import { systemMessage } from '../../../src/agents/tool-loop/system-message.ts';
import { fleetTaskSchema } from '../../../src/contracts/index.ts';

const task = (env_variables: Record<string, unknown>): ReturnType<typeof fleetTaskSchema.parse> =>
  fleetTaskSchema.parse({ task_key: 't', kind: 'fleet', prompt: 'p', env_key: 'e', env_variables });

describe('the system message', () => {
  it('names the date and the other variables, and says how to act', () => {
    const variables = { LOGGED_IN_USER: '1', CURRENT_DATE: '2026-01-12', FLAGS: { b: 1, a: [true] } };
    expect(systemMessage(task(variables), 'Act so.').split('\n\n').slice(1)).toEqual([
      'The current date is 2026-01-12.',
      'The environment:\nFLAGS: {"a":[true],"b":1}\nLOGGED_IN_USER: 1',
      'Act so.',
    ]);
    expect(systemMessage(task({}), 'Act so.').split('\n\n').slice(1)).toEqual(['Act so.']);
  });

  it('is the same whatever the order of the variables', () => {
    expect(systemMessage(task({ B: { y: 1, x: 2 }, A: '1' }), '')).toBe(
      systemMessage(task({ A: '1', B: { x: 2, y: 1 } }), ''),
    );
  });
});
