import { describe, expect, it } from 'vitest';
import type { AgentOutcome } from '../../src/agents/agent.ts';
import { judge, slowPolicy, type OutcomeInput } from '../../src/episode/outcome.ts';
import type { SessionStats } from '../../src/gateway/session.ts';

const stats: SessionStats = {
  calls: 3,
  main_turns: 3,
  prompt_tokens: 100,
  completion_tokens: 30,
  discarded_tokens: 0,
  model_ms: 1_000,
  hold_ms: 0,
  longest_call_ms: 400,
  self_calls: 0,
  budget: null,
  failure: null,
};

function ended(ending: AgentOutcome['ending'], detail = ''): OutcomeInput['end'] {
  return { by: 'agent', outcome: { ending, exit_code: 0, detail, final_answer: null, metrics: {} } };
}

function verdict(input: Partial<OutcomeInput>): ReturnType<typeof judge> {
  return judge({
    end: ended('agent_done'),
    stats,
    place: { name: 'sandbox', state: 'running' },
    agent_seconds: 900,
    ...input,
  });
}

describe('the outcome table', () => {
  it.each(['agent_done', 'refusal'] as const)(
    'grades an agent that ends by itself (%s) as completed',
    (ending) => {
      expect(verdict({ end: ended(ending) })).toEqual({
        graded: true,
        status: 'completed',
        stop_reason: ending,
      });
    },
  );

  it.each(['max_turns', 'max_tokens', 'context_overflow', 'agent_error'] as const)(
    'grades the final state of an agent that ended with %s as truncated',
    (ending) => {
      expect(verdict({ end: ended(ending) })).toEqual({
        graded: true,
        status: 'truncated',
        stop_reason: ending,
      });
    },
  );

  it("takes the gateway's budget as the cause when the agent died of it", () => {
    expect(verdict({ end: ended('agent_error'), stats: { ...stats, budget: 'max_tokens' } })).toMatchObject({
      graded: true,
      status: 'truncated',
      stop_reason: 'max_tokens',
    });
  });

  it('leaves an agent that finished in spite of a budget completed', () => {
    expect(verdict({ stats: { ...stats, budget: 'max_turns' } })).toMatchObject({
      stop_reason: 'agent_done',
    });
  });

  it.each(['oom', 'disk_full'] as const)('grades an agent that met a limit of its sandbox (%s)', (state) => {
    expect(verdict({ end: ended('agent_error'), place: { name: 'sandbox', state } })).toMatchObject({
      graded: true,
      status: 'truncated',
      stop_reason: 'agent_error',
    });
  });

  it('grades what is there when time runs out', () => {
    expect(verdict({ end: { by: 'deadline' } })).toEqual({
      graded: true,
      status: 'truncated',
      stop_reason: 'timeout',
    });
  });

  it('blames the policy, and retries, when one call took more than half of the time', () => {
    expect(verdict({ end: { by: 'deadline' }, stats: { ...stats, longest_call_ms: 451_000 } })).toMatchObject(
      {
        graded: false,
        stop_reason: 'infra',
        failure: { class: 'infra', code: 'policy_slow', retryable: true },
      },
    );
  });

  it('has no reward and no retry for an agent that never called the model', () => {
    expect(verdict({ end: ended('agent_error', 'no shell'), stats: { ...stats, calls: 0 } })).toMatchObject({
      graded: false,
      stop_reason: 'agent_error',
      failure: { class: 'agent', message: 'no shell', retryable: false },
    });
    expect(verdict({ end: { by: 'deadline' }, stats: { ...stats, calls: 0 } })).toMatchObject({
      failure: { class: 'agent', retryable: false },
    });
  });

  it('is infra when the sandbox vanished, however the agent ended', () => {
    expect(verdict({ place: { name: 'sandbox', state: 'gone' } })).toMatchObject({
      graded: false,
      failure: { class: 'infra', code: 'sandbox_gone', retryable: true },
    });
  });

  it('passes on a failure of the policy before anything else', () => {
    const failure = {
      class: 'infra',
      phase: 'agent',
      code: 'policy_unavailable',
      message: 'm',
      retryable: true,
    } as const;
    expect(verdict({ stats: { ...stats, failure }, place: { name: 'sandbox', state: 'gone' } })).toEqual({
      graded: false,
      stop_reason: 'infra',
      failure,
    });
  });

  it('calls a policy slow when more than half of the time was model wait', () => {
    expect(slowPolicy({ ...stats, model_ms: 451_000 }, 900)).toBe(true);
    expect(slowPolicy({ ...stats, model_ms: 449_000 }, 900)).toBe(false);
  });
});
