import fc from 'fast-check';
import type { ScriptStep } from '../../../src/policy/script-schema.ts';
import type { WireFault } from './unruly-wire.ts';

/** What one of an episode's clients does next. */
export interface Step {
  readonly agent: number;
  readonly act:
    | 'ask'
    /** The same body once more. */
    | 'again'
    /** Leaves before the answer; what it asks next is something else, or the same. */
    | 'leave'
    | 'leave and return'
    /** Changes what it was told long ago. */
    | 'rewrite'
    /** Takes its last turns back. */
    | 'back'
    /** A summary instead of the history. */
    | 'compact'
    /** The same body several times at once (clients of OpenAI's API). */
    | 'several';
  /** Milliseconds until it leaves. */
  readonly ms: number;
  /** Which of several: of past turns, of answers. */
  readonly pick: number;
  /** Goes on beside the next step. */
  readonly beside: boolean;
}

export interface EpisodePlan {
  readonly dialect: 'cli' | 'openai';
  readonly stream: boolean;
  readonly maxTokens: number;
  readonly steps: readonly Step[];
  /** The session is finished before this step, whatever is on its way. */
  readonly endsAt: number;
}

const step: fc.Arbitrary<Step> = fc.record({
  agent: fc.oneof(
    { arbitrary: fc.constant(0), weight: 3 },
    { arbitrary: fc.integer({ min: 1, max: 3 }), weight: 2 },
  ),
  act: fc.oneof(
    { arbitrary: fc.constant('ask' as const), weight: 10 },
    {
      arbitrary: fc.constantFrom(
        'again',
        'leave',
        'leave and return',
        'rewrite',
        'back',
        'compact',
        'several',
      ),
      weight: 5,
    },
  ),
  ms: fc.integer({ min: 0, max: 60 }),
  pick: fc.nat({ max: 5 }),
  beside: fc.boolean(),
});

export const episodePlan: fc.Arbitrary<EpisodePlan> = fc.record({
  dialect: fc.constantFrom('cli', 'openai'),
  stream: fc.boolean(),
  maxTokens: fc.constantFrom(400, 400, 400, 14),
  steps: fc.array(step, { minLength: 2, maxLength: 12, size: 'max' }),
  endsAt: fc.oneof(
    { arbitrary: fc.constant(1_000), weight: 3 },
    { arbitrary: fc.nat({ max: 10 }), weight: 1 },
  ),
});

const tampering: fc.Arbitrary<WireFault> = fc
  .oneof(
    fc.constantFrom(
      { kind: 'short_ids' } as const,
      { kind: 'no_ids' } as const,
      { kind: 'no_prompt_ids' } as const,
      { kind: 'no_logprobs' } as const,
    ),
    fc.record({
      kind: fc.constant('logprob' as const),
      value: fc.constantFrom('nan', 'null', 'default', 'positive', 'missing'),
      position: fc.integer({ min: -3, max: 9 }),
    }),
    fc.record({
      kind: fc.constant('usage' as const),
      by: fc.constantFrom(-1, 1, 7),
      field: fc.constantFrom('completion_tokens', 'prompt_tokens'),
    }),
  )
  .map((fault) => ({ kind: 'policy', fault, tampers: true }));

const part = fc.double({ min: 0, max: 0.999, noNaN: true });

/** What is done to one try of a call; more often than not nothing. */
const wireFault: fc.Arbitrary<WireFault> = fc.oneof(
  { arbitrary: fc.constant<WireFault>({ kind: 'none' }), weight: 22 },
  { arbitrary: tampering, weight: 5 },
  {
    arbitrary: fc.record({ kind: fc.constant('late' as const), part, ms: fc.integer({ min: 5, max: 80 }) }),
    weight: 6,
  },
  { arbitrary: fc.record({ kind: fc.constant('cut' as const), part }), weight: 3 },
  {
    arbitrary: fc.record({ kind: fc.constant('status' as const), status: fc.constantFrom(429, 500, 503) }),
    weight: 2,
  },
  {
    arbitrary: fc.record({ kind: fc.constant('hang' as const), ms: fc.integer({ min: 1, max: 60 }) }),
    weight: 1,
  },
  {
    arbitrary: fc
      .constantFrom('abort', 'stream_error', 'die')
      .map((kind): WireFault => ({ kind: 'policy', fault: { kind }, tampers: false })),
    weight: 3,
  },
  {
    arbitrary: fc.record({
      kind: fc.constant('version' as const),
      pause: fc.constantFrom('none', 'drain', 'abort'),
    }),
    weight: 2,
  },
);

/** Faults of a policy, one for each of its calls' tries, again from the beginning after the last. */
export const wireFaults: fc.Arbitrary<readonly WireFault[]> = fc.array(wireFault, {
  minLength: 20,
  maxLength: 60,
  size: 'max',
});

/** A policy that says all kinds of things: thinking, several calls, odd JSON, broken JSON, nothing. */
export const script: readonly ScriptStep[] = [
  {
    repeat: 500,
    turns: [
      {
        branches: [
          {
            p: 6,
            turns: [
              {
                thinking: ['Let me see.', 'Hmm, "ü" < 2.', ''],
                text: ['I look.', '  Once more. ', 'Well, 😀.'],
                tool_calls: [{ name: 'Bash', arguments: '{ "command":"ls \\u00e9" , "n": 5000.0 }' }],
              },
            ],
          },
          {
            p: 2,
            turns: [
              {
                text: ['Both.', ''],
                tool_calls: [
                  { name: 'Bash', arguments: '{}' },
                  { name: 'Bash', arguments: '{"b": {"x" : [1, 2.50]}, "a": "1"}' },
                ],
              },
            ],
          },
          { p: 3, turns: [{ thinking: ['Done?', ''], text: ['Done.', 'That is all. ', 'I am done.'] }] },
          { p: 1, turns: [{ text: 'Oh.', tool_calls: [{ name: 'Bash', arguments: '{"command": "ls' }] }] },
          { p: 1, turns: [{ thinking: ['Nothing.', ''], text: '' }] },
        ],
      },
    ],
  },
];
