import fc from 'fast-check';
import { expect, test } from 'vitest';
import {
  bracketEnd,
  elementTexts,
  memberText,
} from '../../../../src/gateway/engines/call-formats/json-text.ts';
import { literalAsJson } from '../../../../src/gateway/engines/call-formats/python-literal.ts';
import { typedValueText } from '../../../../src/gateway/engines/call-formats/typed-value.ts';

test.each([
  ['12', 'integer', '12'],
  [' +1_000 ', 'int', '1000'],
  ['123456789012345678901234567890', 'integer', '123456789012345678901234567890'],
  ['1.5', 'integer', '"1.5"'],
  ['1.50', 'number', '1.5'],
  ['2.0', 'number', '2'],
  ['1e3', 'float', '1000'],
  ['1e999', 'number', '"1e999"'],
  ['one', 'number', '"one"'],
  ['TRUE', 'boolean', 'true'],
  ['yes', 'boolean', 'false'],
  ['null', 'string', '"null"'],
  ['None', 'integer', 'null'],
  ['null', ['string', 'null'], 'null'],
  ['7', ['null', 'integer'], '7'],
  ['{"a":  1}', 'object', '{"a":  1}'],
  ["{'a': None}", 'object', '{"a": null}'],
  ['{"a"', 'object', '"{\\"a\\""'],
  ['["x"]', 'array', '["x"]'],
  ['"12"', 'array', '"12"'],
  ["'x'", 'anything', '"x"'],
  ['a "b"', 'string', '"a \\"b\\""'],
])('a bare value %j of type %j is %s', (value, type, json) => {
  expect(typedValueText(value, { type })).toBe(json);
});

test('a value without a type is a string, and one of several types the first that is not null', () => {
  expect(typedValueText('1', undefined)).toBe('"1"');
  expect(typedValueText('1', {})).toBe('"1"');
  expect(typedValueText('1', { $ref: '#/x' })).toBe('"1"');
  expect(typedValueText('1', { anyOf: [{ type: 'null' }, { type: 'integer' }, { type: 'string' }] })).toBe(
    '1',
  );
  expect(typedValueText('None', { anyOf: [{ type: 'string' }, { type: 'null' }] })).toBe('null');
});

test.each([
  [
    "{'a': [1, -2.5, 1e3], \"b\": (True, None), 'c': ('x'), 'd': (1,), }",
    '{"a": [1, -2.5, 1000], "b": [true, null], "c": "x", "d": [1]}',
  ],
  ["'it\\'s \\n \\x41 \\u00e9 \\q \"x\"'", '"it\'s \\n A é \\\\q \\"x\\""'],
  ['[]', '[]'],
  ['()', '[]'],
  ['{ }', '{}'],
])('the Python literal %s is the JSON %s', (text, json) => {
  expect(literalAsJson(text)).toBe(json);
});

test.each([
  '',
  'x',
  '{1: 2}',
  "{'a' 1}",
  "['a'",
  "'a",
  "'a\nb'",
  '1 2',
  '[1,,2]',
  '[,]',
  'true',
  '{"a": f()}',
  '[1 2]',
])('%j is no literal', (text) => {
  expect(literalAsJson(text)).toBeNull();
});

test('whatever is written as a literal becomes JSON or nothing', () => {
  const piece = fc.constantFrom(
    '{',
    '}',
    '[',
    ']',
    '(',
    ')',
    ',',
    ':',
    "'a'",
    '"b',
    '\\',
    'True',
    '1',
    '.',
    ' ',
    '\\x4',
    '\\U00110000',
  );
  fc.assert(
    fc.property(fc.array(piece, { maxLength: 12 }), (pieces) => {
      const json = literalAsJson(pieces.join(''));
      if (json !== null) JSON.parse(json);
    }),
    { numRuns: 2000 },
  );
  expect(literalAsJson('['.repeat(100_000))).toBeNull();
});

const jsonText = fc
  .tuple(
    fc.oneof(fc.array(fc.jsonValue()), fc.dictionary(fc.string({ unit: 'binary' }), fc.jsonValue())),
    fc.nat(3),
  )
  .map(([value, indent]) => [value, JSON.stringify(value, null, indent)] as const);

test('the end of a JSON text is found in front of anything, and in no part of it', () => {
  fc.assert(
    fc.property(jsonText, fc.string(), fc.nat(), ([, text], behind, cut) => {
      expect(bracketEnd(`x${text}${behind}`, 1)).toBe(text.length + 1);
      expect(bracketEnd(text.slice(0, cut % text.length), 0)).toBe(-1);
    }),
  );
});

test('the texts of elements and members are those of their values', () => {
  fc.assert(
    fc.property(jsonText, ([value, text]) => {
      if (Array.isArray(value)) {
        expect(elementTexts(text).map((each) => JSON.parse(each))).toEqual(JSON.parse(text));
        return;
      }
      const parsed = JSON.parse(text) as Record<string, unknown>;
      for (const key of Object.keys(parsed)) {
        expect(JSON.parse(memberText(text, key) ?? '')).toEqual(parsed[key]);
      }
      expect(memberText(text, 'a name that is not there')).toBeNull();
    }),
  );
});
