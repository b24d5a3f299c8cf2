import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { mapEnding, type EndingInput } from '../../../src/agents/claude-code/ending.ts';
import {
  advance,
  noProgress,
  type Progress,
  type ResultEvent,
} from '../../../src/agents/claude-code/progress.ts';
import { createStreamJsonParser } from '../../../src/agents/claude-code/stream-json.ts';

/** What was read of a run recorded from CLI 2.1.332. */
function recorded(name: string): Progress {
  let progress = noProgress;
  const parser = createStreamJsonParser((event) => {
    progress = advance(progress, event);
  });
  parser.push(readFileSync(new URL(`./recorded/${name}.jsonl`, import.meta.url)));
  parser.end();
  return progress;
}

const base: Omit<EndingInput, 'exitCode' | 'result'> = {
  lingered: false,
  oversizedLines: 0,
  calls: 2,
  stderrTail: '[claude-code:unrecognized_model] {"model":"policy","query_source":"sdk"}\n',
  secrets: ['secret-bearer'],
};
const success: ResultEvent = {
  type: 'result',
  subtype: 'success',
  is_error: false,
  num_turns: 1,
  stop_reason: 'end_turn',
  terminal_reason: 'completed',
  api_error: null,
  api_error_status: null,
  result: 'done',
  errors: [],
  permission_denials: [],
};

describe('the outcome of a recorded run', () => {
  it.each([
    ['agent-done', 0, 'agent_done', 'done ✓'],
    ['empty-answers', 0, 'agent_done', ''],
    ['refusal', 1, 'refusal', null],
    ['max-turns', 1, 'max_turns', null],
    ['prompt-too-long', 1, 'context_overflow', null],
    ['output-tokens-exhausted', 1, 'max_tokens', null],
    ['policy-error', 1, 'agent_error', null],
    ['killed', 137, 'agent_error', null],
  ] as const)('%s with exit %i is %s', (name, exitCode, ending, answer) => {
    const outcome = mapEnding({ ...base, exitCode, result: recorded(name).result });
    expect(outcome).toMatchObject({ ending, final_answer: answer });
    if (ending === 'agent_done') expect(outcome.detail).toBe('');
    else expect(outcome.detail).toContain(exitCode === 137 ? 'was killed by SIGKILL' : 'exited with 1');
    expect(outcome.detail).not.toContain('unrecognized_model');
  });

  it('keeps the counts a person asks for', () => {
    expect(recorded('agent-done')).toMatchObject({
      started: true,
      assistant_messages: 5,
      tool_calls: 2,
      api_retries: 0,
    });
    expect(recorded('policy-error')).toMatchObject({ tool_calls: 1, api_retries: 2 });
    expect(recorded('killed').result).toBeNull();
  });

  it('says in the CLI’s words what went wrong', () => {
    const { detail } = mapEnding({ ...base, exitCode: 1, result: recorded('policy-error').result });
    expect(detail).toContain('api_error: API Error: 500 boom');
  });
});

describe('the outcome of a run', () => {
  const of = (change: Partial<EndingInput>): ReturnType<typeof mapEnding> =>
    mapEnding({ ...base, exitCode: 0, result: success, ...change });

  it('never goes by subtype: an erroneous "success" is an error', () => {
    expect(
      of({ result: { ...success, is_error: true, terminal_reason: 'api_error' }, exitCode: 1 }).ending,
    ).toBe('agent_error');
  });

  it('takes a client-side context stop for an overflow', () => {
    const result = {
      ...success,
      is_error: true,
      terminal_reason: 'blocking_limit',
      result: 'Prompt is too long',
    };
    expect(of({ result, exitCode: 1 }).ending).toBe('context_overflow');
  });

  it('knows an exhausted output by its words where the code is missing', () => {
    const result = {
      ...success,
      is_error: true,
      terminal_reason: 'api_error',
      result: "API Error: Claude's response exceeded the 4096 output token maximum.",
    };
    expect(of({ result, exitCode: 1 }).ending).toBe('max_tokens');
  });

  it('is an agent error when no call was made, however the CLI describes it', () => {
    const outcome = of({
      calls: 0,
      result: { ...success, result: "/help isn't available in this environment" },
    });
    expect(outcome).toMatchObject({ ending: 'agent_error', final_answer: null });
    expect(outcome.detail).toContain('made no model call');
    expect(outcome.detail).toContain("/help isn't available");
  });

  it('is an agent error when a signal ended it', () => {
    expect(of({ result: null, exitCode: 143 }).detail).toContain('was killed by SIGTERM');
    expect(of({ result: null, exitCode: 143 }).ending).toBe('agent_error');
    const aborted = {
      ...success,
      is_error: true,
      subtype: 'error_during_execution',
      terminal_reason: 'aborted_tools',
      result: null,
    };
    expect(of({ result: aborted, exitCode: 0 }).ending).toBe('agent_error');
  });

  it('is an agent error when it exits with a fault after its result, but not when we ended it for lingering', () => {
    expect(of({ exitCode: 1 })).toMatchObject({ ending: 'agent_error', final_answer: 'done' });
    expect(of({ exitCode: null, lingered: true })).toMatchObject({
      ending: 'agent_done',
      final_answer: 'done',
    });
  });

  it('is an agent error without a result, unless the result was too long to read', () => {
    expect(of({ result: null }).ending).toBe('agent_error');
    expect(of({ result: null, oversizedLines: 1 })).toMatchObject({
      ending: 'agent_done',
      final_answer: null,
    });
  });

  it('never tells the bearer', () => {
    const outcome = of({
      exitCode: 1,
      result: { ...success, is_error: true, result: 'token secret-bearer' },
      stderrTail: 'Authorization: Bearer secret-bearer',
    });
    expect(JSON.stringify(outcome)).not.toContain('secret-bearer');
    expect(of({ result: { ...success, result: 'it is secret-bearer!' } }).final_answer).toBe(
      'it is [redacted]!',
    );
  });

  it('bounds what it keeps', () => {
    const long = 'x'.repeat(1_000_000);
    expect(of({ exitCode: 1, result: { ...success, is_error: true, result: long } }).detail.length).toBe(
      2_000,
    );
    expect(of({ result: { ...success, result: long } }).final_answer?.length).toBe(65_536);
  });
});
