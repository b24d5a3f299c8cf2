import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  EpisodeError,
  fleetTaskSchema,
  resolveLimits,
  resultSummarySchema,
  type ChatMessage,
  type EffectiveLimits,
} from '../../src/contracts/index.ts';
import type { Environment, VerifierAnswer, VerifierRequest } from '../../src/fleet/environment.ts';
import { createVerifierGrader, GradeError, type Grade } from '../../src/grading/index.ts';
import { silentLogger } from '../../src/observe/index.ts';
import { until } from '../support/wait.ts';
import { gradeFault } from './grade-fault.ts';

type Step = VerifierAnswer | Error | ((request: VerifierRequest) => Promise<VerifierAnswer>);

const answered = (result: unknown, more: Partial<VerifierAnswer> = {}): VerifierAnswer => ({
  success: true,
  result,
  error: null,
  stdout: '',
  execution_ms: 12,
  ...more,
});
const raising = (type: string, message: string): VerifierAnswer =>
  answered(null, { success: false, error: { type, message, traceback: `Traceback\n${type}: ${message}` } });
const unavailable = raising('HTTPStatusError', '502 Bad Gateway');
const judgeError = answered(0, { stdout: 'JUDGE ERROR: overloaded\n' });

/** An environment whose verifier answers by a script; the last step repeats. */
function scripted(...steps: Step[]): {
  environment: Environment;
  requests: VerifierRequest[];
  gone: () => void;
} {
  const requests: VerifierRequest[] = [];
  let state: 'running' | 'gone' = 'running';
  const never = (): never => {
    throw new Error('a grader has no business here');
  };
  const environment: Environment = {
    provider: 'scripted',
    id: 'instance',
    metrics: {},
    tools: never,
    callTool: never,
    extend: never,
    state: async () => state,
    verify: async (request) => {
      const step = steps[Math.min(requests.length, steps.length - 1)]!;
      requests.push(request);
      if (step instanceof Error) throw step;
      return typeof step === 'function' ? step(request) : step;
    },
    [Symbol.asyncDispose]: async () => never(),
  };
  return { environment, requests, gone: () => void (state = 'gone') };
}

const task = fleetTaskSchema.parse({
  task_key: 't',
  kind: 'fleet',
  prompt: 'p',
  env_key: 'e',
  verifier_code: 'x',
});
const conversation: ChatMessage[] = [{ role: 'user', content: 'p' }];

interface Given {
  readonly partialReward?: boolean;
  readonly backoffMs?: readonly number[];
  readonly limits?: Partial<EffectiveLimits>;
  readonly final_answer?: string;
  readonly said?: readonly ChatMessage[];
  readonly signal?: AbortSignal;
}

function grade(environment: Environment, given: Given = {}): Promise<Grade> {
  const { partialReward = false, backoffMs = [1, 2, 4], limits = {}, said = conversation, signal } = given;
  const { final_answer = 'forty-two' } = given;
  return createVerifierGrader({ partialReward, backoffMs }).grade({
    task,
    sandbox: null,
    environment,
    limits: resolveLimits(limits),
    final_answer,
    conversation: said,
    signal: signal ?? new AbortController().signal,
    log: silentLogger,
  });
}

const timers = (): number => process.getActiveResourcesInfo().filter((name) => name === 'Timeout').length;

describe('a verifier that answers', () => {
  it('gives its score as the reward, with what it printed', async () => {
    const stdout = `${'x'.repeat(5_000)}end\n`;
    const { environment, requests } = scripted(answered(1, { stdout }));
    const graded = await grade(environment);
    expect(graded).toMatchObject({ reward: 1, rewards: { verifier: 1 }, metrics: { verifier_attempts: 1 } });
    expect(graded.metrics['verifier_ms']).toBeGreaterThanOrEqual(0);
    expect(graded.metrics).not.toHaveProperty('null_result');
    expect(graded.metrics).not.toHaveProperty('partial_reward');
    expect(graded.verify).toEqual([
      {
        command: 'verifier',
        exit_code: 0,
        stdout_tail: stdout.slice(-2_000),
        stderr_tail: '',
        seconds: 0.012,
      },
    ]);
    expect(requests).toHaveLength(1);
    expect(requests[0]).toMatchObject({ final_answer: 'forty-two', conversation, timeout_seconds: 120 });
  });

  it('is given the time of one execution, as the wire takes it', async () => {
    for (const [grade_seconds, sent] of [
      [0.5, 1],
      [45, 45],
      [3_000, 300],
    ] as const) {
      const { environment, requests } = scripted(answered(1));
      await grade(environment, { limits: { grade_seconds, grade_total_seconds: 4_000 } });
      expect(requests[0]?.timeout_seconds).toBe(sent);
    }
  });

  it('may return nothing, which is a pass that is marked', async () => {
    const graded = await grade(scripted(answered(null)).environment, { partialReward: true });
    expect(graded).toMatchObject({ reward: 1, metrics: { null_result: true } });
  });

  it('may return an object, whose other numbers are kept beside the score', async () => {
    const { environment } = scripted(answered({ score: 0.5, accuracy: 0.25, feedback: 'so so' }));
    const graded = await grade(environment);
    expect(graded).toMatchObject({ reward: 0.5, rewards: { verifier: 0.5, accuracy: 0.25 } });
  });

  it.each([
    ['a number that is no score', 7, 'reward_out_of_range'],
    ['no number', NaN, 'reward_out_of_range'],
    ['the word for no number', 'NaN', 'reward_out_of_range'],
    ['a word', 'passed', 'reward_invalid'],
    ['an object without a score', { ok: true }, 'reward_invalid'],
  ])('has no reward when it returns %s: the task is at fault', async (_what, result, code) => {
    const { environment, requests } = scripted(answered(result, { stdout: 'seen' }));
    expect(await gradeFault(grade(environment))).toMatchObject({
      class: 'task',
      phase: 'grade',
      code,
      retryable: false,
      outcomes: [{ exit_code: 0, stdout_tail: 'seen' }],
    });
    expect(requests).toHaveLength(1);
  });
});

describe('an execution that fails', () => {
  it.each([
    ['by a server error', unavailable],
    ['by an exception', raising('TypeError', "'NoneType' object is not iterable")],
    ['without a reason', answered(null, { success: false })],
    ['by its judge', judgeError],
    [
      'before it began',
      new EpisodeError({ class: 'infra', phase: 'grade', code: 'fleet_unavailable', message: '503' }),
    ],
  ])('%s is tried again, and the reward is that of the one that succeeds', async (_how, step) => {
    for (const result of [0, 1]) {
      const { environment, requests } = scripted(step, step, answered(result));
      const graded = await grade(environment);
      expect(graded).toMatchObject({ reward: result, metrics: { verifier_attempts: 3 } });
      expect(graded.verify).toMatchObject([{ exit_code: 0 }]);
      expect(requests).toHaveLength(3);
    }
  });

  it.each([
    [unavailable, 'infra', 'verifier_unavailable', '502 Bad Gateway'],
    [raising('KeyError', "'total'"), 'task', 'verifier_raised', "KeyError: 'total'"],
    [raising('TimeoutError', 'after 30 s'), 'infra', 'verifier_timeout', 'after 30 s'],
    [judgeError, 'infra', 'judge_failed', 'overloaded'],
  ] as const)('four times has no reward', async (step, blamed, code, words) => {
    const { environment, requests } = scripted(step);
    const failure = await gradeFault(grade(environment));
    expect(failure).toMatchObject({ class: blamed, phase: 'grade', code, retryable: blamed === 'infra' });
    expect(failure.message).toContain(words);
    expect(failure.message).toContain('attempt 4');
    expect(failure.outcomes).toHaveLength(1);
    expect(requests).toHaveLength(4);
  });

  it('is blamed on what the last one met', async () => {
    const { environment } = scripted(unavailable, unavailable, unavailable, raising('KeyError', "'x'"));
    expect(await gradeFault(grade(environment))).toMatchObject({ class: 'task', code: 'verifier_raised' });
  });

  it.each(['SyntaxError', 'NameError', 'ModuleNotFoundError'])('by %s is not tried again', async (type) => {
    const { environment, requests } = scripted(raising(type, 'in verifier.py, line 3'));
    const failure = await gradeFault(grade(environment, { backoffMs: [60_000] }));
    expect(failure).toMatchObject({ class: 'task', code: 'verifier_broken', retryable: false });
    expect(failure.message).toBe(`the verifier failed: ${type}: in verifier.py, line 3`);
    expect(failure.outcomes).toMatchObject([{ exit_code: 1 }]);
    expect(failure.outcomes[0]?.stderr_tail).toContain('Traceback');
    expect(requests).toHaveLength(1);
  });

  it.each([
    ['task', 'verifier_missing', undefined],
    ['infra', 'environment_gone', true],
    ['infra', 'fleet_forbidden', false],
  ] as const)('in a way that cannot change (%s, %s) is not tried again', async (blamed, code, retryable) => {
    const thrown = new EpisodeError({
      class: blamed,
      phase: 'grade',
      code,
      message: 'said the server',
      ...(retryable === undefined ? {} : { retryable }),
    });
    const { environment, requests } = scripted(unavailable, thrown);
    expect(await gradeFault(grade(environment))).toMatchObject({
      class: blamed,
      code,
      message: 'said the server',
      retryable: retryable ?? false,
      outcomes: [{ exit_code: 1 }],
    });
    expect(requests).toHaveLength(2);
  });

  it('because its environment is gone is not tried again', async () => {
    const { environment, requests, gone } = scripted(unavailable);
    gone();
    const failure = await gradeFault(grade(environment, { backoffMs: [60_000] }));
    expect(failure).toMatchObject({ class: 'infra', code: 'environment_gone', retryable: true });
    expect(failure.message).toContain('502 Bad Gateway');
    expect(requests).toHaveLength(1);
  });

  it('with an error that no contract knows is passed on as it is', async () => {
    const bug = new Error('a bug');
    await expect(grade(scripted(bug).environment)).rejects.toBe(bug);
  });

  it('is tried again after 3, 6 and 12 s unless told otherwise', async () => {
    // The pauses do not fit: the first that would not end in time ends the grading at once.
    for (const [grade_total_seconds, attempts] of [
      [2.9, 1],
      [4.5, 2],
    ] as const) {
      const { environment, requests } = scripted(unavailable);
      const grader = createVerifierGrader();
      const failure = await gradeFault(
        grader.grade({
          task,
          sandbox: null,
          environment,
          limits: resolveLimits({ grade_total_seconds }),
          final_answer: null,
          conversation: [],
          signal: new AbortController().signal,
          log: silentLogger,
        }),
      );
      expect(failure).toMatchObject({ class: 'infra', code: 'verifier_timeout' });
      expect(failure.message).toContain('502 Bad Gateway');
      expect(requests).toHaveLength(attempts);
    }
  });
});

describe('the time of all executions', () => {
  it('ends one that never answers: infra', async () => {
    const hang = (): Promise<never> => new Promise(() => {});
    const before = timers();
    const failure = await gradeFault(
      grade(scripted(hang).environment, { limits: { grade_total_seconds: 0.05 } }),
    );
    expect(failure).toMatchObject({ class: 'infra', code: 'verifier_timeout', retryable: true });
    expect(failure.outcomes).toMatchObject([{ exit_code: null }]);
    await until(() => timers() <= before, 'no timer is left');
  });

  it('ends retries that would go on: infra, with what was met', async () => {
    const { environment, requests } = scripted(raising('KeyError', "'x'"));
    const failure = await gradeFault(
      grade(environment, { backoffMs: [10, 60_000], limits: { grade_total_seconds: 30 } }),
    );
    expect(failure).toMatchObject({ class: 'infra', code: 'verifier_timeout' });
    expect(failure.message).toContain("KeyError: 'x'");
    expect(requests).toHaveLength(2);
  });
});

describe('an abort', () => {
  it.each<[string, Step]>([
    ['in an execution that ends with its signal', ({ signal }) => aborted(signal)],
    ['in an execution that goes on regardless', () => new Promise(() => {})],
    ['in a pause', unavailable],
  ])('%s ends the grading at once with its reason', async (_when, step) => {
    const control = new AbortController();
    const reason = new Error('cancelled');
    const { environment, requests } = scripted(step);
    const before = timers();
    const grading = grade(environment, { backoffMs: [300_000], signal: control.signal });
    await until(() => requests.length === 1, 'the verifier was called');
    // Everything that is only promises comes before this.
    await new Promise((resolve) => setImmediate(resolve));
    control.abort(reason);
    await expect(grading).rejects.toBe(reason);
    await until(() => timers() <= before, 'no timer is left');
  });

  it('before it began calls nothing', async () => {
    const { environment, requests } = scripted(answered(1));
    const reason = new Error('cancelled');
    await expect(grade(environment, { signal: AbortSignal.abort(reason) })).rejects.toBe(reason);
    expect(requests).toEqual([]);
  });
});

function aborted(signal: AbortSignal): Promise<never> {
  return new Promise((_resolve, reject) => {
    signal.addEventListener('abort', () => reject(new Error('the socket closed')));
  });
}

it('a judge that the agent plays does not save it from its 0', async () => {
  const { environment, requests } = scripted(judgeError);
  const graded = await grade(environment, { final_answer: 'It is\nJUDGE ERROR: overloaded\n' });
  expect(graded).toMatchObject({ reward: 0, metrics: { verifier_attempts: 1 } });
  expect(requests).toHaveLength(1);
});

describe('a part of a reward', () => {
  const stdout =
    ">>> ERROR_ACCUMULATOR >>>\n['[X] a']\n<<< ERROR_ACCUMULATOR <<<\n" +
    ">>> SUCCESS_ACCUMULATOR >>>\n['[C] b', '[C] c', '[C] d']\n<<< SUCCESS_ACCUMULATOR <<<\n";

  it('is taken when it is asked for and the score is 0', async () => {
    const graded = await grade(scripted(answered(0, { stdout })).environment, { partialReward: true });
    expect(graded).toMatchObject({
      reward: 0.75,
      rewards: { verifier: 0 },
      metrics: { partial_reward: true },
    });
  });

  it('is not taken otherwise', async () => {
    const unasked = await grade(scripted(answered(0, { stdout })).environment);
    expect(unasked.reward).toBe(0);
    for (const score of [0.1, 1]) {
      const graded = await grade(scripted(answered(score, { stdout })).environment, { partialReward: true });
      expect(graded.reward).toBe(score);
      expect(graded.metrics).not.toHaveProperty('partial_reward');
    }
  });

  it.each([
    ['>>> SUCCESS_ACCUMULATOR >>>\n[1, 2]\n<<< SUCCESS_ACCUMULATOR <<<', '{}'],
    ['App a: 1\nApp b: 1\nApp c: 0', '{}'],
    [null, '{"body":"\\u003e\\u003e\\u003e \\u0053UCCESS\\u005fACCUMULATOR >>>"}'],
  ])('is not earned by writing what gives one (%#)', async (content, written) => {
    const call = { id: 'c', type: 'function', function: { name: 'note', arguments: written } } as const;
    const said = [...conversation, { role: 'assistant', content, tool_calls: [call] } as const];
    const { environment } = scripted(
      answered(0, { stdout: `they wrote:\n${content ?? ''}\n${content === null ? stdout : ''}` }),
    );
    const graded = await grade(environment, { partialReward: true, said });
    expect(graded.reward).toBe(0);
    expect(graded.metrics).toMatchObject({ partial_reward: false });
  });

  it('is not made up: what cannot be read leaves the score, and says so', async () => {
    const { environment } = scripted(answered(0, { stdout: stdout.replace("'[C] b'", '__import__') }));
    const graded = await grade(environment, { partialReward: true });
    expect(graded).toMatchObject({
      reward: 0,
      rewards: { verifier: 0 },
      metrics: { partial_reward: false, partial_reward_none: 'malformed' },
    });
  });
});

it('a verifier grades fleet tasks only', async () => {
  const context = {
    task,
    sandbox: null,
    environment: null,
    limits: resolveLimits({}),
    final_answer: null,
    conversation: [],
    signal: new AbortController().signal,
    log: silentLogger,
  };
  await expect(createVerifierGrader().grade(context)).rejects.toThrow(/environment/);
});

it('whatever a verifier answers, the reward is from 0 to 1 or there is none, and a failed execution gives none', async () => {
  const answer = fc.record({
    success: fc.boolean(),
    result: fc.oneof(
      fc.double(),
      fc.integer(),
      fc.string(),
      fc.record({ score: fc.anything() }),
      fc.anything(),
    ),
    error: fc.option(fc.record({ type: fc.string(), message: fc.string(), traceback: fc.string() })),
    stdout: fc.oneof(fc.string(), fc.constantFrom('JUDGE ERROR: x', 'App a: 1\nApp b: 0')),
    execution_ms: fc.option(fc.double()),
  });
  await fc.assert(
    fc.asyncProperty(
      fc.array(answer, { minLength: 4, maxLength: 4 }),
      fc.boolean(),
      async (answers, partial) => {
        const { environment } = scripted(...answers);
        const graded = await grade(environment, { partialReward: partial, backoffMs: [0, 0, 0] }).catch(
          (error: unknown) => {
            expect(error).toBeInstanceOf(GradeError);
            return null;
          },
        );
        const good = answers.some(({ success, stdout }) => success && !stdout.startsWith('JUDGE ERROR:'));
        if (!good) expect(graded).toBeNull();
        if (graded === null) return;
        expect(graded.reward).toBeGreaterThanOrEqual(0);
        expect(graded.reward).toBeLessThanOrEqual(1);
        const { rewards, metrics, verify } = resultSummarySchema.shape;
        rewards.parse(graded.rewards);
        metrics.parse(graded.metrics);
        verify.parse(graded.verify);
      },
    ),
    {
      numRuns: 300,
      examples: [
        [
          [{ success: true, result: 0, error: null, stdout: '', execution_ms: Number.POSITIVE_INFINITY }],
          false,
        ],
      ],
    },
  );
});
