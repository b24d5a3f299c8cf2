import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { callFormats, type CallFormat } from '../../../../src/gateway/engines/call-formats/call-format.ts';
import { GeneratedTextStream } from '../../../../src/gateway/engines/call-formats/generated-text-stream.ts';
import { syntaxes } from '../../../../src/gateway/engines/call-formats/syntaxes.ts';
import type { AnswerDelta } from '../../../../src/gateway/engines/engine.ts';
import { parseGeneratedText } from '../../../../src/gateway/engines/generated-text.ts';
import { tools, writers, type Call } from './support.ts';

interface Told {
  reasoning: string;
  content: string;
  calls: { name: string; arguments: string }[];
}

function put(deltas: readonly AnswerDelta[]): Told {
  const told: Told = { reasoning: '', content: '', calls: [] };
  for (const delta of deltas) {
    if (delta.kind === 'reasoning') told.reasoning += delta.text;
    else if (delta.kind === 'text') told.content += delta.text;
    else if (delta.kind === 'call') {
      expect(delta.index).toBe(told.calls.length);
      told.calls.push({ name: delta.name, arguments: '' });
    } else if (delta.kind === 'arguments') told.calls[delta.index]!.arguments += delta.text;
  }
  return told;
}

function stream(pieces: readonly string[], format: CallFormat, thinking?: boolean) {
  const reader = new GeneratedTextStream({ tools, format, thinking });
  const steps = pieces.map((piece) => reader.push(piece));
  const { deltas, spoken } = reader.end();
  return { steps, spoken, told: put([...steps.flat(), ...deltas]) };
}

function whole(text: string, format: CallFormat, thinking?: boolean): Told {
  const { reasoning, content, tool_calls: calls } = parseGeneratedText(text, tools, format, thinking);
  return {
    reasoning: reasoning ?? '',
    content: content ?? '',
    calls: calls.map((call) => ({ name: call.name, arguments: call.arguments })),
  };
}

const value = fc.oneof(
  fc.string({ unit: 'grapheme' }),
  fc.constantFrom('{', '"}', '</parameter>', '</function>', '<tool_call>', '\n', '; {"', '[ARGS]', '\\'),
);
const call: fc.Arbitrary<Call> = fc.oneof(
  fc.record({
    name: fc.constant('edit'),
    given: fc.record({ path: value, text: value }, { requiredKeys: [] }),
  }),
  fc.record({
    name: fc.constantFrom('look', 'rest', 'other'),
    given: fc.dictionary(fc.constantFrom('at', 'b'), value),
  }),
);

/** Texts made of what a format has, in any order, with words between. */
function texts(format: CallFormat): fc.Arbitrary<string> {
  const { thinking, openers } = syntaxes[format];
  const marks = writers[format]([
    { name: 'edit', given: { path: 'a', line: 3 } },
    { name: 'rest', given: {} },
  ]).split(/(?<=[>\]}\n])|(?=[<[{])/);
  const piece = fc.oneof(
    { weight: 3, arbitrary: fc.array(call, { minLength: 1, maxLength: 3 }).map(writers[format]) },
    { weight: 6, arbitrary: fc.constantFrom(...marks, ...openers, ...thinking) },
    {
      weight: 3,
      arbitrary: fc.constantFrom('word', ' ', '\n', ';', '{', '}', ' <', '[', 'look', '```', ':0'),
    },
    { weight: 1, arbitrary: fc.string({ unit: 'binary' }) },
  );
  return fc.array(piece, { maxLength: 12 }).map((pieces) => pieces.join(''));
}

function cutAt(text: string, places: readonly number[]): string[] {
  const cuts = [...new Set(places.map((place) => Math.floor(place * text.length)))].sort((a, b) => a - b);
  return [0, ...cuts].map((from, at) => text.slice(from, cuts[at] ?? text.length));
}

const places = fc.oneof(
  fc.array(fc.double({ min: 0, max: 1, noNaN: true }), { maxLength: 8 }),
  // After every character.
  fc.constant(Array.from({ length: 400 }, (_unused, at) => at / 400)),
);

describe.each(callFormats)('%s', (format) => {
  test('tells in pieces, wherever they are cut, what it reads out of the whole', () => {
    fc.assert(
      fc.property(texts(format), places, fc.constantFrom(undefined, true, false), (text, cuts, thinking) => {
        const { told, spoken } = stream(cutAt(text, cuts), format, thinking);
        expect(told).toEqual(whole(text, format, thinking));
        expect(spoken).toEqual(parseGeneratedText(text, tools, format, thinking));
      }),
      { numRuns: 400 },
    );
  });

  test('loses no word that stands outside of calls', () => {
    const word = fc.nat({ max: 99 }).map((number) => ` word${number}! `);
    const marks = texts(format).filter((text) => !text.includes('word'));
    fc.assert(
      fc.property(fc.array(fc.oneof(word, marks), { maxLength: 6 }), (parts) => {
        const text = parts.join('');
        const { reasoning, content, calls } = whole(text, format);
        const said = [reasoning, content, ...calls.map((each) => each.name + each.arguments)].join(' ');
        for (const [found] of text.matchAll(/word\d+!/g)) expect(said).toContain(found);
        if (calls.length > 0) return;
        const [open, close] = syntaxes[format].thinking;
        const bare = (each: string): string =>
          each.replaceAll(open, '').replaceAll(close, '').replaceAll(/\s/g, '');
        expect(bare(reasoning + content)).toBe(bare(text));
      }),
      { numRuns: 400 },
    );
  });

  test('tells text at once, and a marker never', () => {
    const [open, close] = syntaxes[format].thinking;
    const { steps } = stream([open, 'a', ' b', close, 'c', ' d<', 'e', '['], format);
    const texts = steps.map((deltas) => deltas.map((delta) => ('text' in delta ? delta.text : '')).join(''));
    expect(texts.slice(0, 5)).toEqual(['', 'a', ' b', '', 'c']);
    expect(texts[6]!.endsWith('e')).toBe(true);
    const text = writers[format]([{ name: 'look', given: { at: 'here' } }]);
    const letters = stream([...`Hm. ${text}`], format, false);
    const said = letters.steps.flat().filter((delta) => delta.kind === 'text');
    expect(said.map((delta) => ('text' in delta ? delta.text : '')).join('')).toBe('Hm. ');
  });
});

test('holds back everything of a text that may prove to be thinking, where nobody knows', () => {
  const { steps, told } = stream(['so ', 'it is', '</think>', 'yes'], 'hermes');
  expect(steps.map((deltas) => deltas.length)).toEqual([0, 0, 1, 1]);
  expect(told).toEqual({ reasoning: 'so it is', content: 'yes', calls: [] });
  expect(stream(['so ', 'it is'], 'hermes', false).steps.map((deltas) => deltas.length)).toEqual([1, 1]);
  expect(stream(['so ', 'it is'], 'hermes', true).told.reasoning).toBe('so it is');
});

test('tells a call when it closes, where one that follows cannot make text of it', () => {
  const calls = writers.qwen3_coder([
    { name: 'look', given: { at: 'here' } },
    { name: 'look', given: { at: 'there' } },
  ]);
  const [first = '', second = ''] = calls.split(/(?<=<\/tool_call>)/);
  const { steps } = stream([first, second], 'qwen3_coder', false);
  expect(steps.map((deltas) => deltas.filter((delta) => delta.kind === 'call').length)).toEqual([1, 1]);
});

test('is not slow where a long call comes in many pieces', () => {
  const text = '<b>x</b> {"y": [1]}\n'.repeat(10_000);
  for (const format of callFormats) {
    const pieces = writers[format]([{ name: 'edit', given: { text } }]).match(/[^]{1,5}/g) ?? [];
    const started = performance.now();
    expect(stream(pieces, format, false).told.calls).toHaveLength(1);
    // A millisecond a piece would be some minute.
    expect(performance.now() - started, format).toBeLessThan(10_000);
  }
});
