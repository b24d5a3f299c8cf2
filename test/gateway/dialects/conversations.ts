import fc from 'fast-check';
import { assistant, png, result, text, use, user } from './turns.ts';

/** Any text, the odd ones included: empty, white space, ends of lines, pairs and halves of surrogates. */
export const anyText = fc.oneof(
  fc.string({ unit: 'binary', maxLength: 20 }),
  fc.constantFrom('', ' ', '\n', '\r\n\r\n', '\u2028', '\ud83d', '😀', 'data: [DONE]', '{"a":', '<think>'),
);

const block = fc.oneof(
  { weight: 4, arbitrary: anyText.map(text) },
  { weight: 1, arbitrary: fc.constant(png) },
  { weight: 1, arbitrary: anyText.map((data) => ({ type: 'document', source: { type: 'text', data } })) },
  {
    weight: 1,
    arbitrary: fc.constant({ type: 'document', source: { type: 'base64', media_type: 'application/pdf' } }),
  },
);
const content = fc.oneof(anyText, fc.array(block, { maxLength: 3 }));

interface Move {
  /** What the assistant says before its calls. */
  readonly says: readonly unknown[];
  readonly inputs: readonly unknown[];
  /** What the user says. */
  readonly hears: readonly unknown[];
  readonly results: readonly unknown[];
  /** The order in which the results come, by sorting. */
  readonly order: readonly number[];
  /** Whether the last result is missing. */
  readonly forgets: boolean;
  readonly system: string | null;
}

const move: fc.Arbitrary<Move> = fc.record({
  says: fc.array(
    fc.oneof(
      anyText.map(text),
      anyText.map((thinking) => ({ type: 'thinking', thinking, signature: 's' })),
      fc.constant({ type: 'redacted_thinking', data: 'x' }),
    ),
    { maxLength: 3 },
  ),
  inputs: fc.array(
    fc.oneof(fc.dictionary(anyText, fc.jsonValue({ maxDepth: 2 })), fc.jsonValue({ maxDepth: 1 })),
    {
      maxLength: 3,
    },
  ),
  hears: fc.array(block, { maxLength: 2 }),
  results: fc.array(content, { minLength: 3, maxLength: 3 }),
  order: fc.array(fc.nat(), { minLength: 3, maxLength: 3 }),
  forgets: fc.boolean(),
  system: fc.option(anyText),
});

/** The messages of one move; `at` makes its ids unique. */
function played({ says, inputs, hears, results, order, forgets, system }: Move, at: number): unknown[] {
  const ids = inputs.map((_, index) => `t_${at}_${index}`);
  const told = ids
    .map((id, index) => result(id, results[index], { is_error: index === 1 }))
    .slice(0, forgets ? -1 : undefined)
    .map((each, index) => ({ each, rank: order[index]! }))
    .sort((a, b) => a.rank - b.rank)
    .map(({ each }) => each);
  return [
    assistant([...says, ...inputs.map((input, index) => use(ids[index]!, input))]),
    user([...hears.slice(0, 1), ...told, ...hears.slice(1), text(`turn ${at}`)]),
    ...(system === null ? [] : [{ role: 'system', content: system }]),
  ];
}

/** A valid conversation as it grew: what the agent sent at each of its calls. */
export const growing: fc.Arbitrary<readonly (readonly unknown[])[]> = fc
  .tuple(content, fc.array(move, { maxLength: 4 }))
  .map(([first, moves]) => {
    const requests = [[user(first)]] as unknown[][];
    for (const [at, each] of moves.entries()) requests.push([...requests.at(-1)!, ...played(each, at)]);
    return requests;
  });
