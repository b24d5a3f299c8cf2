import fc from 'fast-check';
import { expect, test } from 'vitest';
import { textLimit } from '../../../src/fleet/mcp/result-text.ts';
import { toToolResult } from '../../../src/fleet/mcp/tool-result.ts';

const text = (value: string): object => ({ type: 'text', text: value });
const png = 'iVBORw0KGgo=';

test.each([
  ['plain', 'sold out'],
  ['JSON, which is not written anew', '{ "b":1,\n "a": [1.0, 2e3] }'],
  ['a number', '17'],
])('a single text is passed on as it is: %s', (_kind, value) => {
  expect(toToolResult({ content: [text(value)] })).toEqual({ text: value, images: [], is_error: false });
});

test('several texts that are JSON are one array, others are parted by blank lines', () => {
  expect(toToolResult({ content: [text('{"id": 1}'), text('{"id": 2}')] }).text).toBe(
    '[{"id": 1},\n{"id": 2}]',
  );
  expect(toToolResult({ content: [text('first'), text('2')] }).text).toBe('first\n\n2');
});

test('structured content counts only where there is no text', () => {
  const structuredContent = { flights: [1] };
  expect(toToolResult({ content: [], structuredContent }).text).toBe('{"flights":[1]}');
  expect(toToolResult({ content: [text('one flight')], structuredContent }).text).toBe('one flight');
  expect(toToolResult({ toolResult: 'from an old server' }).text).toBe('from an old server');
});

test('images become data URIs, in order, and the text says so where there is none', () => {
  const image = { type: 'image', data: png, mimeType: 'image/png' };
  const jpeg = { type: 'image', data: '/9j/4AAQ', mimeType: 'application/octet-stream' };
  expect(toToolResult({ content: [image, jpeg] })).toEqual({
    text: 'The tool answered with 2 images.',
    images: [`data:image/png;base64,${png}`, 'data:image/jpeg;base64,/9j/4AAQ'],
    is_error: false,
  });
  expect(toToolResult({ content: [text('clicked'), image] })).toMatchObject({
    text: 'clicked',
    images: [expect.any(String)],
  });
});

test('JSON with base64_image is an image and the rest of the JSON', () => {
  const value = { output: 'clicked', base64_image: png, error: null };
  expect(toToolResult({ content: [text(JSON.stringify(value))] })).toEqual({
    text: '{"output":"clicked","error":null}',
    images: [`data:image/png;base64,${png}`],
    is_error: false,
  });
  expect(
    toToolResult({ content: [text(JSON.stringify({ base64_image: `data:image/webp;base64,${png}` }))] }),
  ).toEqual({
    text: 'The tool answered with an image.',
    images: [`data:image/webp;base64,${png}`],
    is_error: false,
  });
  const none = '{"output":"clicked","base64_image":null}';
  expect(toToolResult({ content: [text(none)] })).toEqual({ text: none, images: [], is_error: false });
});

test('what is no image in base64 does not become a URI', () => {
  const result = toToolResult({ content: [{ type: 'image', data: '"><script>', mimeType: 'image/png' }] });
  expect(result.images).toEqual([]);
  expect(result.text).toBe('[an image that cannot be read, image/png]');
});

test.each([
  ['isError', { isError: true, content: [text('no seats')] }],
  ['a failed status', { content: [text('{"status":"failed","why":"no seats"}')] }],
  ['an error', { content: [text('{"error":"no seats"}')] }],
  ['isError in the text', { content: [text('{"isError":true}')] }],
  ['an error in structured content', { structuredContent: { error: { code: 7 } } }],
])('%s makes it an error', (_kind, raw) => {
  expect(toToolResult(raw).is_error).toBe(true);
});

test.each([
  ['{"error":null,"status":"ok"}'],
  ['{"error":""}'],
  ['[{"status":"failed"}]'],
  ['no error here'],
  ['"error"'],
])('%s is not an error', (value) => {
  expect(toToolResult({ content: [text(value)] }).is_error).toBe(false);
});

test('several texts are data, even where one of them is about a failure', () => {
  const content = [text('{"id":1,"status":"failed"}'), text('{"id":2,"status":"paid"}')];
  expect(toToolResult({ content }).is_error).toBe(false);
});

test.each([
  {},
  { content: [] },
  { content: [text('')] },
  { content: [text(' \n')] },
  { content: 'none', structuredContent: null },
])('an empty answer says that it is empty: %j', (raw) => {
  expect(toToolResult(raw)).toEqual({ text: 'The tool answered with nothing.', images: [], is_error: false });
});

test('other content is described, and a text resource is shown', () => {
  const content = [
    { type: 'audio', data: 'AAAA', mimeType: 'audio/wav' },
    { type: 'resource', resource: { uri: 'file:///a.txt', mimeType: 'text/plain', text: 'inside' } },
    { type: 'resource', resource: { uri: 'file:///b.bin', blob: 'AAAA' } },
    { type: 'resource_link', uri: 'https://x.test/', name: 'x' },
    { type: 'hologram' },
    null,
  ];
  expect(toToolResult({ content }).text).toBe(
    [
      '[audio, audio/wav]',
      '[resource, file:///a.txt, text/plain]\ninside',
      '[resource, file:///b.bin]',
      '[resource link, https://x.test/, x]',
      '[content of another kind, hologram]',
    ].join('\n\n'),
  );
});

test('a very long text is cut, between characters, and says how much is missing', () => {
  const long = 'a'.repeat(textLimit - 1) + '🎫'.repeat(100);
  const result = toToolResult({ content: [text(long)] }).text;
  expect(result.slice(0, textLimit - 1)).toBe('a'.repeat(textLimit - 1));
  expect(result.slice(textLimit - 1)).toBe(
    `\n[cut here: 200 of ${textLimit + 199} characters are not shown]`,
  );
});

test('property: whatever a server answers, the text is not empty, bounded and can be written as UTF-8', () => {
  const block = fc.oneof(
    fc.record({
      type: fc.constant('text'),
      text: fc.string({ unit: fc.integer({ max: 0xffff, min: 0 }).map((code) => String.fromCharCode(code)) }),
    }),
    fc.record({
      type: fc.constantFrom('text', 'image', 'audio', 'resource', 'x'),
      data: fc.jsonValue(),
      text: fc.jsonValue(),
    }),
    fc.record({ type: fc.constant('text'), text: fc.json() }),
    fc.jsonValue(),
  );
  fc.assert(
    fc.property(
      fc.record(
        {
          content: fc.oneof(fc.array(block), fc.jsonValue()),
          structuredContent: fc.jsonValue(),
          isError: fc.jsonValue(),
        },
        { requiredKeys: [] },
      ),
      (raw) => {
        const result = toToolResult(raw);
        expect(result.text.length).toBeGreaterThan(0);
        expect(Buffer.from(result.text, 'utf8').toString('utf8')).toBe(result.text);

        expect(result.text).not.toMatch(/[\u0000-\u0008\u000B\u000C\u000E-\u001F\u007F]/);
        for (const image of result.images)
          expect(image).toMatch(/^data:image\/[\w.+-]+;base64,[A-Za-z0-9+/]+={0,2}$/);
      },
    ),
  );
});

test('JSON nested deeper than the stack is said, not a crash', () => {
  let deep: object = {};
  for (let level = 0; level < 50_000; level++) deep = { deep };
  const { text: said, is_error } = toToolResult({ structuredContent: deep });
  expect([said, is_error]).toEqual(['[structured content nested too deep to be shown]', false]);
  const rest = `${'{"a":'.repeat(50_000)}1${'}'.repeat(50_000)}`;
  const screenshot = toToolResult({ content: [text(`{"base64_image":"iVBORw0KGgo=","state":${rest}}`)] });
  expect(screenshot.images).toEqual(['data:image/png;base64,iVBORw0KGgo=']);
});
