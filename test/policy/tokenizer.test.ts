import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { endOfTurn, firstPieceId, firstSpecialId, splitSpecials } from '../../src/policy/special-tokens.ts';
import {
  decodeTokens,
  encodeText,
  encodeWithSpecials,
  isToken,
  joinBytes,
} from '../../src/policy/tokenizer.ts';
import { pieces, vocabularySize } from '../../src/policy/vocabulary.ts';
import { completeLength, decodeBytes, encodeBytes } from '../../src/policy/wtf8.ts';

// Any sequence of UTF-16 units: lone surrogates included.
const anyText = fc.string({
  unit: fc.integer({ min: 0, max: 0xffff }).map((unit) => String.fromCharCode(unit)),
});
const someText = fc.oneof(
  anyText,
  fc.string({ unit: 'binary' }),
  fc.string({ unit: fc.constantFrom(...' \n\tabc{}":,()=\\/é😀<|im_end|>'.split('')) }),
  fc.json(),
);

describe('the tokenizer', () => {
  it('gives every string back, lone surrogates too', () => {
    fc.assert(
      fc.property(someText, (text) => {
        expect(decodeTokens(encodeText(text))).toBe(text);
        expect(decodeTokens(encodeWithSpecials(text))).toBe(text);
      }),
    );
    expect(decodeTokens(encodeText('\ufeffa\ud83d b\ude00'))).toBe('\ufeffa\ud83d b\ude00');
  });

  it('only uses ids of its vocabulary and keeps the order bytes, specials, pieces', () => {
    expect(new Set(pieces).size).toBe(pieces.length);
    fc.assert(
      fc.property(someText, (text) => {
        for (const id of encodeText(text)) {
          expect(isToken(id) && (id < firstSpecialId || (id >= firstPieceId && id < vocabularySize))).toBe(
            true,
          );
        }
      }),
    );
  });

  it('takes a spelled special token for text unless asked to recognise it', () => {
    expect(encodeWithSpecials('a<|im_end|>')).toEqual([97, endOfTurn]);
    expect(encodeText('<|im_end|>')).not.toContain(endOfTurn);
    expect(splitSpecials('x<think>y')).toEqual(['x', 259, 'y']);
  });

  it('has more than one way to write most texts, of which one is canonical', () => {
    const [first = 0, ...rest] = encodeText('return value');
    const split = [...joinBytes([first]), ...rest];
    expect(decodeTokens(split)).toBe('return value');
    expect(encodeText('return value')).not.toEqual(split);
  });

  it('never cuts inside a character it could still complete', () => {
    fc.assert(
      fc.property(anyText, fc.nat(), (text, at) => {
        const bytes = encodeBytes(text);
        const part = bytes.subarray(0, bytes.length === 0 ? 0 : at % (bytes.length + 1));
        const whole = decodeBytes(part.subarray(0, completeLength(part)));
        expect(text.startsWith(whole)).toBe(true);
      }),
    );
  });
});
