import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { hasCallMarkup, readTextTurn } from '../../../src/agents/tool-loop/text-call.ts';

const args = fc.dictionary(fc.string(), fc.jsonValue());
const name = fc.string({ minLength: 1 }).filter((text) => text.trim() === text);
const prose = fc.string().filter((text) => !/<|\[done\]/i.test(text));

describe('a turn written as text', () => {
  it('gives the call that was written, whatever its arguments hold and whatever stands around it', () => {
    fc.assert(
      fc.property(name, args, prose, prose, fc.boolean(), (called, given, before, after, other) => {
        const tag = other ? 'function_call' : 'tool_call';
        const json = JSON.stringify({ name: called, arguments: given }, null, other ? 2 : 0);
        const turn = readTextTurn(`${before}<${tag}>${json}</${tag}>${after}`, false);
        expect(turn).toEqual({
          call: { id: null, name: called, args: JSON.parse(JSON.stringify(given)) as unknown },
          done: false,
        });
      }),
    );
  });

  it('is read the same with its closing tag and the closing braces at its end missing', () => {
    fc.assert(
      fc.property(name, args, (called, given) => {
        const whole = JSON.stringify({ name: called, arguments: given });
        const bare = whole.replace(/\}{1,3}$/, '');
        expect(readTextTurn(`<tool_call>${bare}`, false)).toEqual(
          readTextTurn(`<tool_call>${whole}</tool_call>`, false),
        );
      }),
    );
  });

  it('never throws, and has no call where no tag opens one', () => {
    const pieces = fc.constantFrom(
      '<tool_call>',
      '</tool_call>',
      '<think>',
      '</think>',
      '<done>',
      '{"name":"a"',
      '"arguments":',
      '{',
      '}',
      '"',
      '\\',
      ',',
      ' x ',
    );
    fc.assert(
      fc.property(
        fc.array(pieces).map((list) => list.join('')),
        fc.boolean(),
        (text, cutOff) => {
          const { call } = readTextTurn(text, cutOff);
          if (!text.includes('<tool_call>')) expect(call).toBeNull();
        },
      ),
    );
  });

  it.each([
    ['{"name": "f", "arguments": {"a": {"b": {"c": 1', 'four braces are missing'],
    ['{"name": "f", "arguments": {"a": "b', 'a string is open'],
    ['{"name": "f", "arguments": {"a": [1}}', 'an array is open'],
    ['f(1)', 'it is no object'],
    ['', 'it is empty'],
    ['{"name": " ", "arguments": {}}', 'its name is blank'],
    ['{"arguments": {}}', 'it has no name'],
    ['{"name": 3}', 'its name is no string'],
    ['{"name": "f", "arguments": [1]}', 'its arguments are a list'],
    ['{"name": "f", "arguments": "[1]"}', 'its arguments are the text of a list'],
  ])('has a fault in %s, since %s', (text) => {
    expect(readTextTurn(`<tool_call>${text}</tool_call>`, false).call).toHaveProperty('fault');
  });

  it.each([
    ['{"name": "f"}', {}],
    ['{"name": "f", "arguments": null}', {}],
    ['{"name": "f", "arguments": ""}', {}],
    ['{"name": "f", "arguments": "{\\"a\\": 1}"}', { a: 1 }],
    ['{"tool": "f", "params": {"a": 1}}', { a: 1 }],
    ['\n{"name": "f", "arguments": {"a": 1}}} ', { a: 1 }],
  ])('takes %s', (text, expected) => {
    expect(readTextTurn(`<tool_call>${text}</tool_call>`, false).call).toEqual({
      id: null,
      name: 'f',
      args: expected,
    });
  });

  it('leaves thinking out, also where only its end was sampled or its end is missing', () => {
    const call = '<tool_call>{"name": "f"}</tool_call>';
    expect(readTextTurn(`<think>${call}<done></think>`, false)).toEqual({ call: null, done: false });
    expect(readTextTurn(`${call} hm </think>[DONE]`, false)).toEqual({ call: null, done: true });
    expect(readTextTurn(`<think>${call}<done>`, false)).toEqual({ call: null, done: false });
    expect(readTextTurn(`<think>no</think>${call}`, false).call).toMatchObject({ name: 'f' });
    expect(hasCallMarkup(`<think>${call}</think>`)).toBe(false);
    expect(hasCallMarkup('<tool_call>f')).toBe(true);
  });

  it('takes a done marker for one outside of calls only', () => {
    const says = (text: string): string =>
      `<tool_call>{"name": "f", "arguments": {"a": "${text}"}}</tool_call>`;
    expect(readTextTurn(says('<done> [done] <think>'), false)).toEqual({
      call: { id: null, name: 'f', args: { a: '<done> [done] <think>' } },
      done: false,
    });
    expect(readTextTurn(`${says('x')}${says('<done>')}`, false).done).toBe(false);
    expect(readTextTurn(`${says('x')} <Done>`, false).done).toBe(true);
    expect(readTextTurn('<tool_call>{"name": "f"} [done]', false).done).toBe(true);
  });

  it('does not complete what the token limit cut off', () => {
    const cut = '<tool_call>{"name": "f", "arguments": {"a": 1';
    expect(readTextTurn(cut, true).call).toHaveProperty('fault');
    expect(readTextTurn(cut, false).call).toMatchObject({ args: { a: 1 } });
    expect(readTextTurn(`${cut}}}`, true).call).toMatchObject({ args: { a: 1 } });
  });
});

it('reads a turn that never stops opening calls in time that grows with its length only', () => {
  const startedAt = performance.now();
  const turn = readTextTurn('<tool_call>'.repeat(40_000), false);
  expect(turn).toMatchObject({ call: { fault: 'it is not a JSON object' }, done: false });
  // Some tens of milliseconds; with a look through the rest of the text for each call it was 18 s.
  expect(performance.now() - startedAt).toBeLessThan(5_000);
});
