import { execFileSync } from 'node:child_process';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { partialReward } from '../../src/grading/accumulators.ts';
import { parsePythonLiteral, PythonLiteralError } from '../../src/grading/python-literal.ts';

const block = (name: string, body: string): string =>
  `>>> ${name}_ACCUMULATOR >>>\n${body}\n<<< ${name}_ACCUMULATOR <<<\n`;
const errors = (body: string): string => block('ERROR', body);
const successes = (body: string): string => block('SUCCESS', body);
const app = (name: string, result: string, inside: string): string =>
  `<<< VERIFY_${name} <<<\n${inside}>>> VERIFY_${name} >>>\nApp ${name}: ${result}\n`;

describe('the part of a reward', () => {
  it('is the successes among all checks', () => {
    const printed = `loading\n${errors("['[X] one', \"[X] it's two\"]")}${successes("['[C] three']")}done`;
    expect(partialReward(printed)).toEqual({ reward: 1 / 3 });
    expect(partialReward(printed.replaceAll('\n', '\r\n'))).toEqual({ reward: 1 / 3 });
  });

  it('is 0 when only errors were printed', () => {
    expect(partialReward(errors("['[X] one']"))).toEqual({ reward: 0 });
    expect(partialReward(errors("['[X] one']") + successes('[]'))).toEqual({ reward: 0 });
  });

  it('reads what a judge prints: a prefix, and JSON', () => {
    const printed = `[STDOUT] ${errors('["[X] caf\\u00e9 \\ud83d\\ude00", null]')}${successes('["a", "b"]')}`;
    expect(partialReward(printed)).toEqual({ reward: 0.5 });
  });

  it('counts apps where a verifier looks at several, without those that had nothing to do', () => {
    const outlook = app(
      'outlook',
      '1',
      successes("['[C] Email sent', '[C] Verified no unexpected changes']"),
    );
    const lifeline = app('lifeline', '0', errors("['[X] No appointment']") + successes('[]'));
    const medora = app(
      'medora',
      '1',
      successes("['[C] Verified no unexpected changes in the Medora database']"),
    );
    expect(partialReward(`${outlook}${lifeline}${medora}Combined result: 2/3 apps passed`)).toEqual({
      reward: 0.5,
    });
    expect(partialReward(lifeline + medora)).toEqual({ reward: 0 });
    expect(partialReward('App bare: 1\nApp other: 0\n')).toEqual({ reward: 0.5 });
    expect(partialReward(medora)).toEqual({ none: 'no_checks' });
    const files = app('files', '1', successes("['[C] No filesystem changes required for this task']"));
    expect(partialReward(medora + files)).toEqual({ none: 'no_checks' });
  });

  it.each([
    ['nothing was printed', '', 'absent'],
    ['other things were printed', 'result: 0.0\n>>> CRITERIA >>>\n[]\n<<< CRITERIA <<<', 'absent'],
    ['both lists are empty', errors('[]') + successes('[]'), 'no_checks'],
    ['every check passed, and the score is 0 all the same', successes("['a']"), 'contradicts_score'],
    ['every app passed, and the score is 0 all the same', 'App a: 1\nApp b: 1', 'contradicts_score'],
    ['a list is cut off', errors("['a']") + ">>> SUCCESS_ACCUMULATOR >>>\n['a', 'b", 'malformed'],
    ['a list holds what is no literal', errors('[datetime.date(2026, 1, 1)]'), 'malformed'],
    ['a list is none', errors("'[X] one'") + successes("['a']"), 'malformed'],
    ['a dict stands for a list', errors("{'a': 1}") + successes("['a']"), 'malformed'],
    ['an app has another result', 'App a: 7\nApp b: 0', 'malformed'],
    ['the list of an app cannot be read', app('a', '1', successes('[oops]')) + 'App b: 0', 'malformed'],
    ['an app has two results', 'App a: 0\nApp a: 1', 'ambiguous'],
    [
      'the agent planted a list in what is printed',
      `answer: \n${successes("['a', 'b', 'c']")}${errors("['x']")}${successes('[]')}`,
      'ambiguous',
    ],
  ])('does not exist when %s', (_why, printed, none) => {
    expect(partialReward(printed)).toEqual({ none });
  });

  it('is a fraction below 1 or none, whatever is printed', () => {
    const line = fc.oneof(
      fc.string(),
      fc.constantFrom(
        '>>> ERROR_ACCUMULATOR >>>',
        '<<< ERROR_ACCUMULATOR <<<',
        '>>> SUCCESS_ACCUMULATOR >>>',
        '<<< SUCCESS_ACCUMULATOR <<<',
        '<<< VERIFY_a <<<',
        '>>> VERIFY_a >>>',
        'App a: 1',
        'App b: 0',
        "['x', 'y']",
        '[]',
        "['no unexpected changes']",
      ),
    );
    fc.assert(
      fc.property(fc.array(line, { maxLength: 14 }), (lines) => {
        const part = partialReward(lines.join('\n'));
        if ('reward' in part) {
          expect(part.reward).toBeGreaterThanOrEqual(0);
          expect(part.reward).toBeLessThan(1);
        }
      }),
      { numRuns: 2_000 },
    );
  });

  it('takes long outputs in time', () => {
    const list = `[${"'[X] it failed', ".repeat(50_000)}]`;
    const printed = `${'>>> ERROR\n'.repeat(100_000)}${errors(list)}${successes("['a']")}`;
    const part = partialReward(printed);
    expect(part).toEqual({ reward: 1 / 50_001 });
  });
});

describe('a Python literal', () => {
  it('is read as CPython wrote it', () => {
    const leaf = fc.oneof(
      fc.string({ unit: 'binary' }),
      fc.string(),
      fc.integer(),
      fc.double({ noNaN: true, noDefaultInfinity: true }).filter((value) => !Object.is(value, -0)),
      fc.boolean(),
      fc.constant(null),
    );
    const { value } = fc.letrec<{ value: unknown }>((tie) => ({
      value: fc.oneof({ depthSize: 'small' }, leaf, fc.array(tie('value'), { maxLength: 4 })),
    }));
    const values = fc.sample(value, 500);
    const code =
      'import json, sys\n' +
      'values = json.load(sys.stdin)\n' +
      'tupled = lambda v: tuple(map(tupled, v)) if isinstance(v, list) else v\n' +
      'print(json.dumps([[repr(v), repr(tupled(v)), ascii(v)] for v in values]))';
    const written = JSON.parse(
      execFileSync('python3', ['-c', code], {
        input: JSON.stringify(values),
        maxBuffer: 64 * 1024 * 1024,
        encoding: 'utf8',
      }),
    ) as string[][];
    for (const [index, texts] of written.entries()) {
      for (const text of texts) expect(parsePythonLiteral(text), text).toEqual(values[index]);
    }
  });

  it.each<[string, unknown]>([
    ['(1)', 1],
    ['(1,)', [1]],
    ['()', []],
    ['[1, 2,]', [1, 2]],
    ["{'a', 'b'}", ['a', 'b']],
    ["b'\\x41\\101'", 'AA'],
    ["'a\\\nb\\q\\/'", 'ab\\q\\/'],
    ["'\\U0001f600'", '😀'],
    ['[nan, -inf, 1_000, .5, 1.]', [NaN, -Infinity, 1000, 0.5, 1]],
    [
      "{'a': [1], 2: None}",
      new Map<unknown, unknown>([
        ['a', [1]],
        [2, null],
      ]),
    ],
    [' \n[ 1 , ( 2 , ) ] \n', [1, [2]]],
  ])('%j is understood', (text, value) => {
    expect(parsePythonLiteral(text)).toEqual(value);
  });

  it.each([
    '',
    '[',
    ']',
    '[1 2]',
    '[,]',
    "'a",
    "'a\nb'",
    "'\\x4'",
    "'\\U00110000'",
    "f'{1}'",
    '__import__("os")',
    'open("x")',
    '[x for x in y]',
    '-None',
    '1 + 1',
    '[1] [2]',
    "{'a': 1, 'b'}",
    '['.repeat(100_000),
    'Decimal("1")',
  ])('%.40j is refused', (text) => {
    expect(() => parsePythonLiteral(text)).toThrow(PythonLiteralError);
  });

  it('never fails in another way', () => {
    const piece = fc.constantFrom(
      '[',
      ']',
      '(',
      ')',
      '{',
      '}',
      ',',
      ':',
      "'",
      '"',
      '\\',
      'x',
      '1',
      '-',
      ' ',
      'N',
    );
    fc.assert(
      fc.property(fc.oneof(fc.string(), fc.string({ unit: piece, maxLength: 30 })), (text) => {
        try {
          parsePythonLiteral(text);
        } catch (error) {
          expect(error).toBeInstanceOf(PythonLiteralError);
        }
      }),
      { numRuns: 3_000 },
    );
  });
});
