import { isDeepStrictEqual } from 'node:util';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { parseLenientJson } from '../../../../src/gateway/engines/lenient-json.ts';
import { scanCompletion } from '../../../../src/gateway/engines/scan/completion-scan.ts';
import { LogprobList } from '../../../../src/gateway/engines/completion-parts.ts';
import { readVllmAnswer, vllmAnswer } from '../../../../src/gateway/engines/vllm-answer.ts';
import { completion, type Loose } from '../../support/fake-vllm.ts';
import { completionText, number } from './completion-text.ts';

const isId = (id: unknown): boolean =>
  Number.isInteger(id) && (id as number) >= 0 && (id as number) < 2 ** 31;

/** What the scan has to give, made the slow way: lists of a parsed body as typed arrays. Throws where the scan may not give anything. */
function typed(text: string): unknown {
  const root: Loose = JSON.parse(text);
  const idList = (owner: Loose, key: string): void => {
    if (!Array.isArray(owner[key])) return;
    if (!owner[key].every(isId)) throw new Error(`${key} has what is no id`);
    owner[key] = Int32Array.from(owner[key]);
  };
  idList(root, 'prompt_token_ids');
  const choice = Array.isArray(root.choices) ? root.choices[0] : undefined;
  if (choice === null || typeof choice !== 'object' || Array.isArray(choice)) return root;
  idList(choice, 'token_ids');
  idList(choice, 'prompt_token_ids');
  const content = choice.logprobs?.content;
  if (!Array.isArray(content) || Array.isArray(choice.logprobs)) return root;
  const names = content.map(({ token }) => /^token_id:(\d+)$/.exec(typeof token === 'string' ? token : ''));
  const ids = names.map((match) => (match === null ? -1 : Number(match[1])));
  choice.logprobs.content = new LogprobList(
    Float32Array.from(content, ({ logprob }) => (typeof logprob === 'number' ? logprob : NaN)),
    ids.length > 0 && ids.every(isId) ? Int32Array.from(ids) : null,
  );
  return root;
}

/** What the engine's reader says of a body, or that it is none. */
function read(answer: () => unknown): unknown {
  try {
    return answer();
  } catch (error) {
    return (error as Error).name;
  }
}

/** Whether the scan gave the bytes up; fails when it gave anything but what parsing gives. */
function gaveUp(bytes: Buffer): boolean {
  const answers = [
    read(() => readVllmAnswer(bytes)),
    read(() => vllmAnswer(parseLenientJson(bytes.toString()))),
  ];
  if (!isDeepStrictEqual(answers[0], answers[1])) expect(answers[0]).toEqual(answers[1]);
  const scanned = scanCompletion(bytes);
  if (scanned === null) return true;
  const expected = typed(bytes.toString());
  if (!isDeepStrictEqual(scanned, expected)) expect(scanned).toEqual(expected);
  expect(isDeepStrictEqual(scanned, expected)).toBe(true);
  return false;
}

test('any body is read as a parser reads it, or left to the parser', () => {
  let scanned = 0;
  fc.assert(
    fc.property(completionText, (text) => {
      if (!gaveUp(Buffer.from(text))) scanned++;
    }),
    { numRuns: 2_000 },
  );
  expect(scanned).toBeGreaterThan(400);
});

test('a body with broken bytes is never read differently from what a parser makes of it', () => {
  const change = fc.record({
    at: fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true }),
    kind: fc.constantFrom('flip', 'set', 'insert', 'remove', 'swap'),
    byte: fc.oneof(fc.integer({ min: 0, max: 255 }), fc.constantFrom(...Buffer.from('{}[]:,"\\0-.eE \n'))),
  });
  const sound = Buffer.from(
    JSON.stringify(completion({ content: 'a "b" \\ c', ids: [5, 60, 700], logprobs: [-0.25, -1.1, -1e-7] })),
  );
  const listed = Buffer.from(sound.toString().replaceAll('"bytes":null', '"bytes":[116,49]'));
  fc.assert(
    fc.property(
      fc.oneof(
        fc.constantFrom(sound, listed),
        completionText.map((text) => Buffer.from(text)),
      ),
      fc.array(change, { minLength: 1, maxLength: 3 }),
      (original, changes) => {
        const bytes = [...original];
        for (const { at, kind, byte } of changes) {
          const index = Math.floor(at * bytes.length);
          if (kind === 'flip') bytes[index]! ^= 1 << (byte & 7);
          else if (kind === 'set') bytes[index] = byte;
          else if (kind === 'insert') bytes.splice(index, 0, byte);
          else if (kind === 'remove') bytes.splice(index, 1);
          else
            [bytes[index], bytes[bytes.length - 1 - index]] = [
              bytes[bytes.length - 1 - index]!,
              bytes[index]!,
            ];
        }
        gaveUp(Buffer.from(bytes));
      },
    ),
    { numRuns: 4_000 },
  );
});

test('a body cut off anywhere is left to the parser', () => {
  const whole = Buffer.from(JSON.stringify(completion()));
  for (let length = 0; length < whole.length; length++) {
    expect(scanCompletion(whole.subarray(0, length))).toBeNull();
  }
});

test('what engines write is not left to the parser', () => {
  const body = completion({
    content: 'ü🦜 "\\',
    ids: [1, 2, 3],
    logprobs: [-1.1920928955078125e-7, -9999, null],
  });
  const python = JSON.stringify(body, null, 1).replaceAll(/\n */g, '').replaceAll('":', '": ');
  for (const text of [JSON.stringify(body), JSON.stringify(body, null, 2), python]) {
    expect(gaveUp(Buffer.from(text))).toBe(false);
  }
});

test('lists longer than the ones kept for reading them are read whole, and the next short one too', () => {
  const ids = Array.from({ length: 300_000 }, (_item, index) => index);
  const logprobs = ids.slice(0, 9_000).map((id) => -id / 7);
  for (const count of [9_000, 3]) {
    const body = completion({
      prompt: ids.slice(0, count * 33),
      ids: ids.slice(0, count),
      logprobs: logprobs.slice(0, count),
    });
    expect(gaveUp(Buffer.from(JSON.stringify(body)))).toBe(false);
  }
});

describe('left to the parser', () => {
  const whole = JSON.stringify(completion());
  const refused: Readonly<Record<string, string>> = {
    'a name that stands twice': whole.replace('"model"', '"choices":[],"model"'),
    'a name that may be another by its escapes': whole.replace('"model"', '"choice\\u0073"'),
    NaN: whole.replace('"logprob":-0.11', '"logprob":NaN'),
    'ids that are none': whole.replace('[11,12,13]', '[11,12.0,13]'),
    'deep nesting': whole.replace('"model":"policy"', `"model":${'['.repeat(80)}${']'.repeat(80)}`),
    'a byte order mark': `\uFEFF${whole}`,
    'text behind the end': `${whole} x`,
  };
  for (const [what, text] of Object.entries(refused)) {
    test(what, () => {
      expect(text).not.toBe(whole);
      expect(scanCompletion(Buffer.from(text))).toBeNull();
    });
  }
});

test('nothing that is no JSON is taken, wherever it stands', () => {
  const broken = [
    ...[
      '',
      '01',
      '-01',
      '1.',
      '.5',
      '-',
      '+1',
      '1e',
      '1e+',
      '1.e5',
      '0x1',
      '1 2',
      '- 1',
      '1.2.3',
      'Infinity',
    ],
    ...['[01]', '[1,]', '[,1]', '[1 2]', '[1', '1]', '[-]', '[1,02]', '[1.]', '[}', '[1}'],
    ...['{"a":1,}', '{,}', '{"a"1}', '{"a":}', '{a:1}', '{"a":1 "b":2}', '{"a",1}', '{1:2}', '{"a":1]'],
    ...['"', '"\\', '"\\x"', '"\\u12"', '"\\u12g4"', '"a\n"', '"\t"', "'a'", '"a" "b"', '"a"b'],
    ...['tru', 'nul', 'falsee', 'True', 'None', 'undefined', 'nulll', '/**/1', '\u00a01'],
  ];
  const places: readonly ((value: string) => string)[] = [
    (value) => `{"x":${value},"choices":[{}]}`,
    (value) => `{"prompt_token_ids":${value}}`,
    (value) => `{"prompt_token_ids":[1,${value}]}`,
    (value) => `{"choices":[{"token_ids":[${value},1]}]}`,
    (value) => `{"choices":[{"message":${value}}]}`,
    (value) => `{"choices":[{"logprobs":${value}}]}`,
    (value) => `{"choices":[{"logprobs":{"content":${value}}}]}`,
    ...['"logprob"', '"token"', '"bytes"'].map(
      (name) => (value: string) =>
        `{"choices":[{"logprobs":{"content":[{"token":"a"},{${name}:${value}},{${name}:${value},"y":1}]}}]}`,
    ),
  ];
  for (const place of places) {
    for (const value of broken) {
      const text = place(value);
      expect(() => JSON.parse(text), text).toThrow();
      expect(scanCompletion(Buffer.from(text)), text).toBeNull();
    }
  }
});

test('logprobs are the float32 that parsing and rounding gives, to the last bit', () => {
  fc.assert(
    fc.property(fc.array(number, { minLength: 1, maxLength: 20 }), (texts) => {
      const content = texts.map((text) => `{"logprob":${text}}`).join(',');
      const text = `{"choices":[{"logprobs":{"content":[${content}]}}]}`;
      expect(gaveUp(Buffer.from(text))).toBe(false);
    }),
    { numRuns: 2_000 },
  );
});
