import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { RequestMessage } from '../../src/policy/chat-request.ts';
import { renderPrompt, turnKey, turnOf, turnParts } from '../../src/policy/chat-template.ts';
import { CompletionParser } from '../../src/policy/completion-parser.ts';
import { generate } from '../../src/policy/generation.ts';
import { Random } from '../../src/policy/hashing.ts';
import { decodeTokens } from '../../src/policy/tokenizer.ts';
import { TurnMemory } from '../../src/policy/turn-memory.ts';

const system: RequestMessage = { role: 'system', content: 'Be brief.' };
const user: RequestMessage = { role: 'user', content: 'Go on.' };

function assistant(content: string, reasoning = '', text?: string): RequestMessage {
  const call = { id: 'x', type: 'function', function: { name: 'Bash', arguments: text ?? '' } };
  return { role: 'assistant', content, reasoning, ...(text === undefined ? {} : { tool_calls: [call] }) };
}

const render = (messages: RequestMessage[], template: 'plain' | 'hostile', memory = new TurnMemory(10)) =>
  renderPrompt(messages, [], { template, memory, callFormat: 'line' });

const textOf = (messages: RequestMessage[], template: 'plain' | 'hostile'): string =>
  decodeTokens(render(messages, template).ids);

describe('the plain template', () => {
  it('keeps prompt and sampled ids of every turn as a prefix of the next prompt, however they were segmented', () => {
    const piece = fc.string({ unit: 'binary', maxLength: 30 });
    const turns = fc.array(fc.record({ content: piece, reasoning: piece, text: piece }), {
      minLength: 1,
      maxLength: 5,
    });
    fc.assert(
      fc.property(turns, fc.integer(), fc.nat({ max: 20 }), (said, key, limit) => {
        const memory = new TurnMemory(100);
        const random = new Random(String(key));
        const messages: RequestMessage[] = [system, user];
        let before: number[] = [];
        for (const [index, turn] of said.entries()) {
          const prompt = render(messages, 'plain', memory);
          expect([...prompt.ids.slice(0, before.length)]).toEqual(before);
          const content = turnOf(assistant(turn.content, turn.reasoning, turn.text));
          const answer = generate({
            writings: [{ weight: 1, parts: turnParts(content, 'line'), option: 0 }],
            settings: {
              temperature: 1,
              topP: 1,
              topK: -1,
              minP: 0,
              presencePenalty: 0,
              frequencyPenalty: 0,
              repetitionPenalty: 1,
              logitBias: new Map(),
            },
            promptIds: prompt.ids,
            // Some turns run into their limit.
            maxTokens: index % 2 === 0 ? 1000 : limit + 1,
            stop: [],
            includeStop: false,
            reader: new CompletionParser(true),
            splitRate: 0.3,
            uniform: () => random.next(),
          });
          const ids = answer.steps.map((step) => step.draw.id);
          memory.remember(prompt.prefix, turnKey(answer.message), Int32Array.from(ids));
          before = [...prompt.ids, ...ids];
          const { reasoning, content: text, calls } = answer.message;
          messages.push({
            role: 'assistant',
            content: text,
            reasoning,
            tool_calls: calls.map((call, at) => ({ id: `c${at}`, type: 'function', function: call })),
          });
          messages.push({ role: 'tool', content: 'ok', tool_call_id: 'c0' });
        }
      }),
    );
  });

  it('tokenises a turn anew when it was forgotten, changed, or follows something else', () => {
    const memory = new TurnMemory(1);
    const odd = Int32Array.from([118, 97, 108, 117, 101, 258]);
    const { prefix } = render([user], 'plain', memory);
    memory.remember(prefix, turnKey(turnOf(assistant('value'))), odd);
    const prompt = (messages: RequestMessage[]): string => render(messages, 'plain', memory).ids.join();
    expect(prompt([user, assistant('value')])).toContain('118,97,108,117,101,258');
    expect(prompt([system, user, assistant('value')])).not.toContain(',118,97,108,117,101,258');
    memory.remember(prefix, 'another', odd);
    expect(prompt([user, assistant('value')])).not.toContain(',118,97,108,117,101,258');
  });

  it('takes a system message anywhere and arguments as they are', () => {
    const text = textOf(
      [system, user, assistant('', '', '{"a":1'), { role: 'system', content: 'Note.' }],
      'plain',
    );
    expect(text).toContain('Bash\n{"a":1</tool_call>');
    expect(text).toContain('<|im_start|>system\nNote.<|im_end|>');
  });

  it('never lets text become a special token', () => {
    const sneaky = render([{ role: 'user', content: '<|im_end|>' }], 'plain').ids;
    expect(sneaky.filter((id) => id === 258)).toHaveLength(1);
  });
});

describe('the hostile template', () => {
  it('parses and dumps tool arguments again', () => {
    const text = textOf([user, assistant('', '', '{"b":1.50,"a":"\\u00e9"}')], 'hostile');
    expect(text).toContain('Bash\n{"b": 1.5, "a": "é"}</tool_call>');
    expect(textOf([user, assistant('', '', '')], 'hostile')).toContain('Bash\n{}</tool_call>');
  });

  it('drops thinking before the last user message and keeps it after', () => {
    const text = textOf([user, assistant('A', 'early'), user, assistant('B', 'late')], 'hostile');
    expect(text).not.toContain('early');
    expect(text).toContain('<think>late</think>B');
  });

  it('refuses a late system message and invalid arguments in the words of the engine', () => {
    expect(() => textOf([user, system], 'hostile')).toThrow('System message must be at the beginning.');
    expect(() => textOf([user, assistant('', '', '{"a" 1}')], 'hostile')).toThrow(
      "Expecting ':' delimiter: line 1 column 6 (char 5)",
    );
  });
});
