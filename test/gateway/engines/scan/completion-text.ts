import fc from 'fast-check';

/** Arbitrary texts of chat completions: valid JSON in every spelling that comes to mind, whatever its meaning. */
type Text = fc.Arbitrary<string>;

const space = fc.constantFrom('', '', '', ' ', '\n', '\t', ' \r\n');

function list(element: Text, maxLength = 6): Text {
  return fc
    .tuple(fc.array(element, { maxLength }), space, space)
    .map(([texts, before, behind]) => `[${before}${texts.join(`${behind},${before}`)}${behind}]`);
}

/** Some of `members` in any order, now and then one twice, beside some that nobody knows. */
function object(members: Readonly<Record<string, Text>>): Text {
  const known = fc.record(members).chain((record) => {
    const pairs = Object.entries(record).map(([key, value]) => `${JSON.stringify(key)}:${value}`);
    return fc.oneof(
      { weight: 8, arbitrary: fc.shuffledSubarray(pairs, { minLength: pairs.length }) },
      { weight: 2, arbitrary: fc.shuffledSubarray(pairs) },
      { weight: 1, arbitrary: fc.tuple(fc.constant(pairs), fc.subarray(pairs)).map((both) => both.flat()) },
    );
  });
  const unknown = fc.array(
    fc
      .tuple(key, space, space, value)
      .map(([name, before, behind, text]) => `${name}${before}:${behind}${text}`),
    { maxLength: 2 },
  );
  return fc.tuple(known, unknown, fc.boolean(), space, space).map(([texts, extra, first, before, behind]) => {
    const all = first ? [...extra, ...texts] : [...texts, ...extra];
    return `{${before}${all.join(`${behind},${before}`)}${behind}}`;
  });
}

const string: Text = fc.oneof(
  fc.string({ unit: 'binary', maxLength: 12 }).map((text) => JSON.stringify(text)),
  fc.constantFrom(
    '"\\"token_ids\\":[1,2]"',
    '"\\\\\\"logprob\\":-1"',
    '"\\u0022logprobs\\u0022"',
    '"\\ud83d"',
    '"\\/\\b\\f\\n\\r\\t"',
    '"日本 🦜"',
    '"}]"',
    '"\\\\"',
  ),
);

/** Names whose escapes spell what is looked for, and names that only resemble it. */
const key: Text = fc.oneof(
  { weight: 6, arbitrary: string },
  {
    weight: 1,
    arbitrary: fc.constantFrom(
      '"\\u0074oken_ids"',
      '"choice\\u0073"',
      '"logpro\\u0062"',
      '"\\u0074oken"',
      '"a\\"token_ids"',
      '"token"',
      '"logprob"',
      '"__proto__"',
    ),
  },
);

/** Doubles at and right beside the middle between two float32: where the last bit of a double decides. */
const besideMiddles: Text = fc
  .tuple(fc.float({ max: -(2 ** -100), min: -(2 ** 100), noNaN: true }), fc.integer({ min: -3, max: 3 }))
  .map(([value, steps]) => {
    const bits = new BigInt64Array(1);
    const double = new Float64Array(bits.buffer);
    double[0] = value;
    // A float32 has 29 bits less than a double.
    bits[0] = bits[0]! + (1n << 28n) + BigInt(steps);
    return String(double[0]);
  });

export const number: Text = fc.oneof(
  { weight: 4, arbitrary: besideMiddles },
  {
    weight: 4,
    arbitrary: fc.double({ noNaN: true, noDefaultInfinity: true }).map((value) => JSON.stringify(value)),
  },
  // As an engine writes a float32: with the digits of the double that it is.
  {
    weight: 4,
    arbitrary: fc.float({ max: 0, noNaN: true, noDefaultInfinity: true }).map((value) => String(value)),
  },
  { weight: 2, arbitrary: fc.integer().map(String) },
  {
    weight: 2,
    arbitrary: fc
      .tuple(
        fc.constantFrom('', '-'),
        fc.stringMatching(/^(0|[1-9]\d{0,24})$/),
        fc.stringMatching(/^(\.\d{1,30})?$/),
        fc.stringMatching(/^([eE][+-]?\d{1,3})?$/),
      )
      .map((parts) => parts.join('')),
  },
  {
    weight: 1,
    arbitrary: fc.constantFrom(
      '-0',
      '-0.0',
      '-1.1920928955078125e-07',
      '-9999.0',
      '1e400',
      '3.4028235677973366e38',
      '1.00000005960464477540',
      '1.000000059604644775390625',
      '1.4e-45',
      '7e-46',
      '0e5',
      '0.00000000000000000000000000000000000000000000001',
    ),
  },
);

const value: Text = fc.oneof(
  string,
  number,
  fc.constantFrom('null', 'true', 'false', '{}', '[]', '[1,[2,{"a":[]}]]'),
  fc.json({ maxDepth: 3 }),
  fc.integer({ min: 60, max: 70 }).map((depth) => '['.repeat(depth) + ']'.repeat(depth)),
);

const id = fc.oneof(
  { weight: 20, arbitrary: fc.integer({ min: 0, max: 0x7fffffff }).map(String) },
  { weight: 1, arbitrary: number },
  { weight: 1, arbitrary: value },
);
const plainIds = list(fc.integer({ min: 0, max: 200_000 }).map(String), 12);
const ids: Text = fc.oneof(
  { weight: 6, arbitrary: plainIds },
  { weight: 2, arbitrary: list(id, 8) },
  { weight: 1, arbitrary: value },
);

const token: Text = fc.oneof(
  { weight: 3, arbitrary: string },
  { weight: 1, arbitrary: value },
  {
    weight: 2,
    arbitrary: fc.constantFrom(
      '"token_id:7"',
      '"token_id:\\u0031"',
      '"token_id:007"',
      '"token_id:2147483648"',
      '"token_id:"',
      '"token_id:7\\n"',
    ),
  },
);
const logprob: Text = fc.oneof(
  { weight: 6, arbitrary: number },
  { weight: 1, arbitrary: fc.constant('null') },
  { weight: 1, arbitrary: value },
);
const entry: Text = fc.oneof(
  {
    weight: 12,
    arbitrary: object({
      token,
      logprob,
      bytes: fc.oneof(list(fc.integer({ min: 0, max: 255 }).map(String), 4), fc.constant('null')),
      top_logprobs: list(object({ token: string, logprob: number }), 1),
    }),
  },
  { weight: 1, arbitrary: value },
);
const named = object({
  token: fc.integer({ min: 0, max: 99_999 }).map((n) => `"token_id:${n}"`),
  logprob: number,
});
const entries = fc.oneof({ weight: 3, arbitrary: list(entry) }, { weight: 1, arbitrary: list(named) });
const logprobs: Text = fc.oneof(
  { weight: 8, arbitrary: object({ content: entries, refusal: fc.constant('null') }) },
  { weight: 1, arbitrary: value },
);
const choice: Text = fc.oneof(
  {
    weight: 12,
    arbitrary: object({
      index: fc.constant('0'),
      message: object({ role: fc.constant('"assistant"'), content: string, tool_calls: list(value, 2) }),
      logprobs,
      finish_reason: string,
      stop_reason: value,
      token_ids: ids,
      prompt_token_ids: ids,
    }),
  },
  { weight: 1, arbitrary: value },
);
const choices: Text = fc.oneof({ weight: 12, arbitrary: list(choice, 2) }, { weight: 1, arbitrary: value });

export const completionText: Text = fc
  .tuple(
    space,
    object({
      id: string,
      choices,
      usage: object({ prompt_tokens: number, completion_tokens: number }),
      prompt_token_ids: ids,
      prompt_logprobs: fc.constant('null'),
    }),
    space,
  )
  .map((parts) => parts.join(''));
