import { describe, expect, test } from 'vitest';
import type { AssistantMessage, ChatMessage, ToolDefinition } from '../../../src/contracts/index.ts';
import { AnsweredCalls } from '../../../src/gateway/calls/answered-calls.ts';
import { Continuation } from '../../../src/gateway/continuation/continuation.ts';
import type { Engine, Spoken } from '../../../src/gateway/engines/engine.ts';
import { Replica } from '../../../src/gateway/policy/replica.ts';
import { silentLogger } from '../../../src/observe/index.ts';

/** Words are tokens, each new one the next id: enough to see where every token of a prompt came from. */
class Words {
  readonly #ids = new Map<string, number>();
  readonly words: string[] = [];

  ids(...words: readonly string[]): number[] {
    return words.map((word) => {
      let id = this.#ids.get(word);
      if (id === undefined) {
        this.#ids.set(word, (id = this.words.length + 100));
        this.words.push(word);
      }
      return id;
    });
  }

  text(ids: ArrayLike<number>): string {
    return Array.from(ids, (id) => this.words[id - 100]).join(' ');
  }
}

type Template = (messages: readonly ChatMessage[], tools: readonly ToolDefinition[]) => string[];

const textOf = (message: ChatMessage): string[] => {
  const calls = message.role === 'assistant' ? (message.tool_calls ?? []) : [];
  const content =
    typeof message.content === 'string' && message.content !== '' ? message.content.split(' ') : [];
  return [...content, ...calls.flatMap((call) => ['<call>', call.function.name, call.function.arguments])];
};

/** ChatML; the last turn gets an empty thinking block when no user message follows it, as Qwen 3 has it. */
const chatml: Template = (messages, tools) => {
  const lastUser = messages.findLastIndex(({ role }) => role === 'user');
  return [
    ...(tools.length > 0 ? ['<s>', 'tools', ...tools.map((tool) => tool.function.name), '</s>', 'nl'] : []),
    ...messages.flatMap((message, at) => [
      '<s>',
      message.role,
      ...(message.role === 'assistant' && at > lastUser ? ['<think>', '</think>'] : []),
      ...textOf(message),
      '</s>',
      'nl',
    ]),
    '<s>',
    'assistant',
  ];
};

/** Turns are not closed: the next one's role token ends them, and the policy samples it, as GLM has it. */
const open: Template = (messages) => [
  ...messages.flatMap((message) => [
    `<|${message.role === 'tool' ? 'observation' : message.role}|>`,
    ...textOf(message),
  ]),
  '<|assistant|>',
];

/** The tools stand before the last user message, as in Mistral's: what follows an answer depends on them. */
const toolsLast: Template = (messages, tools) => {
  const lastUser = messages.findLastIndex(({ role }) => role === 'user');
  return [
    ...messages.flatMap((message, at) => [
      ...(at === lastUser ? tools.map((tool) => `[${tool.function.name}]`) : []),
      message.role,
      ...textOf(message),
      '</s>',
    ]),
    'assistant',
  ];
};

const tools: ToolDefinition[] = [{ type: 'function', function: { name: 'look', parameters: {} } }];
const asked: ChatMessage[] = [
  { role: 'system', content: 'You work.' },
  { role: 'user', content: 'Go on' },
];
const calling: AssistantMessage = {
  role: 'assistant',
  content: 'I look',
  tool_calls: [{ id: 'a', type: 'function', function: { name: 'look', arguments: '{ }' } }],
};
const result: ChatMessage = { role: 'tool', tool_call_id: 'a', content: 'a room' };

interface Setting {
  readonly words: Words;
  readonly rendered: ChatMessage[][];
  readonly promptOf: (
    answer: AssistantMessage,
    sampled: readonly string[],
    tail: readonly ChatMessage[],
    ended?: boolean,
  ) => Promise<string | null>;
}

function setting(template: Template, reread: Spoken | null = null): Setting {
  const words = new Words();
  const rendered: ChatMessage[][] = [];
  const engine: Pick<Engine, 'render' | 'reread'> = {
    reread: async () => reread,
    render: async (_replica, request) => {
      rendered.push([...request.messages]);
      return Int32Array.from(words.ids(...template(request.messages, request.tools ?? [])));
    },
  };
  const continuation = new Continuation(engine as Engine, silentLogger);
  return {
    words,
    rendered,
    promptOf: async (answer, sampled, tail, ended = true) => {
      const calls = new AnsweredCalls();
      const prompt = Int32Array.from(words.ids(...template(asked, tools)));
      const completion = Int32Array.from(words.ids(...sampled));
      calls.add('main', asked, tools, answer, { prompt, completion, ended, readByEngine: true });
      const messages = [...asked, answer, ...tail];
      const parent = calls.before('main', messages, tools)!;
      await using replica = {
        replica: new Replica('http://127.0.0.1:1', undefined),
        [Symbol.asyncDispose]() {
          return this.replica.close();
        },
      };
      const ids = await continuation.promptOf(
        { parent, messages, tools, upstreamId: (id) => id },
        replica.replica,
        AbortSignal.timeout(5_000),
      );
      return ids === null ? null : words.text(ids.subarray(prompt.length));
    },
  };
}

describe('a prompt goes on from the sampled tokens', () => {
  test('behind the end that closes a turn, whatever the template makes of the turn itself', async () => {
    const { promptOf } = setting(chatml);
    expect(
      await promptOf(calling, ['<think>', 'hm', '</think>', 'I', 'look', '<call>', 'odd', '</s>'], [result]),
    ).toBe('<think> hm </think> I look <call> odd </s> nl <s> tool a room </s> nl <s> assistant');
    expect(
      await promptOf(
        { role: 'assistant', content: 'Done' },
        ['Do', 'ne', '</s>'],
        [{ role: 'user', content: 'More' }],
      ),
    ).toBe('Do ne </s> nl <s> user More </s> nl <s> assistant');
  });

  test('where the policy ends its turn with the token that opens the next one', async () => {
    const { promptOf } = setting(open);
    expect(await promptOf(calling, ['I', 'look', '<|observation|>'], [result])).toBe(
      'I look <|observation|> a room <|assistant|>',
    );
    // It expected the user, and a tool spoke: this is another prompt.
    expect(await promptOf(calling, ['I', 'look', '<|user|>'], [result])).toBeNull();
  });

  test('a turn that was cut is closed with what closes turns in the template', async () => {
    const cut: AssistantMessage = { role: 'assistant', content: 'I am' };
    const more: ChatMessage = { role: 'user', content: 'More' };
    expect(await setting(chatml).promptOf(cut, ['I', 'am'], [more], false)).toBe(
      'I am </s> nl <s> user More </s> nl <s> assistant',
    );
    expect(await setting(open).promptOf(cut, ['I', 'am'], [more], false), 'nothing closes a turn').toBeNull();
  });

  test('an end of its own in what the agent was told does not mislead', async () => {
    const { promptOf } = setting(chatml);
    expect(await promptOf(calling, ['x', '</s>'], [{ ...result, content: 'a </s> b' }])).toBe(
      'x </s> nl <s> tool a </s> b </s> nl <s> assistant',
    );
  });

  test('each kind is compared with the whole once, and then costs the new messages alone', async () => {
    const { promptOf, rendered } = setting(chatml);
    await promptOf(calling, ['x', '</s>'], [result]);
    expect(rendered.filter((messages) => messages.length > 4)).toEqual([]);
    expect(rendered.filter((messages) => messages[0]?.role === 'system')).toHaveLength(1);
    rendered.length = 0;
    await promptOf(calling, ['y', '</s>'], [result, result]);
    expect(rendered.map((messages) => messages.map(({ role }) => role))).toEqual([
      ['user', 'assistant', 'tool', 'tool'],
    ]);
  });
});

describe('what was learnt of a template does not outlive it', () => {
  const introduced: Template = (messages, given) => [
    ...(messages[0]?.role === 'system' ? [] : ['<s>', 'system', 'Be good.', '</s>', 'nl']),
    ...chatml(messages, given),
  ];

  test.each([
    ['one with another beginning', introduced, 'x </s> nl <s> tool a room </s> nl <s> assistant'],
    ['one that closes turns otherwise', toolsLast, 'x </s> tool a room </s> assistant'],
  ] as const)('the policy was started anew with %s', async (_name, later, prompt) => {
    let template: Template = chatml;
    const { promptOf } = setting((...given) => template(...given));
    expect(await promptOf(calling, ['x', '</s>'], [result])).not.toBeNull();
    template = later;
    expect(await promptOf(calling, ['x', '</s>'], [result])).toBe(prompt);
    template = chatml;
    expect(await promptOf(calling, ['x', '</s>'], [result])).toBe(
      'x </s> nl <s> tool a room </s> nl <s> assistant',
    );
  });
});

describe('only text will do', () => {
  test('where a call has a name that spells a token', async () => {
    const { promptOf } = setting(chatml);
    const odd = (name: string): AssistantMessage => ({
      ...calling,
      tool_calls: [{ id: 'a', type: 'function', function: { name, arguments: '{}' } }],
    });
    expect(await promptOf(odd('look'), ['x', '</s>'], [result])).not.toBeNull();
    expect(await promptOf(odd('</s>'), ['x', '</s>'], [result])).toBeNull();
  });

  test('where a word that stands in every short turn ended an answer', async () => {
    const { promptOf } = setting(chatml);
    const more: ChatMessage = { role: 'user', content: 'More' };
    const done: AssistantMessage = { role: 'assistant', content: 'Done' };
    expect(await promptOf(done, ['Done', '</s>'], [more])).not.toBeNull();
    expect(await promptOf(done, ['Done', 'assistant'], [more])).toBeNull();
    expect(await promptOf(done, ['Done', 'Hello.'], [more])).toBeNull();
  });

  test('where the rendering of what follows depends on the conversation', async () => {
    const { promptOf, rendered } = setting(toolsLast);
    const done: AssistantMessage = { role: 'assistant', content: 'Done' };
    const more: ChatMessage = { role: 'user', content: 'More' };
    expect(await promptOf(done, ['Done', '</s>'], [more])).toBeNull();
    rendered.length = 0;
    expect(await promptOf(done, ['Done', '</s>'], [more])).toBeNull();
    expect(rendered, 'it is not tried again').toEqual([]);
    // Results stand behind the last user message: they are rendered alike everywhere.
    expect(await promptOf(calling, ['x', '</s>'], [result])).toBe('x </s> tool a room </s> assistant');
  });

  test('where the engine reads calls in another way than is done here', async () => {
    const read = (given: string): Spoken => ({
      content: 'I look',
      reasoning: null,
      tool_calls: [{ id: '', name: 'look', arguments: given }],
    });
    const sampled = ['x', '</s>'];
    expect(
      await setting(chatml, read('{}')).promptOf(calling, sampled, [result]),
      'written anew',
    ).not.toBeNull();
    const { promptOf } = setting(chatml, read('{"at":1}'));
    for (let odd = 0; odd < 3; odd++) expect(await promptOf(calling, sampled, [result])).toBeNull();
    expect(await promptOf({ role: 'assistant', content: 'Done' }, sampled, [result])).toBeNull();
    const none = setting(chatml, { content: 'I look <call>', reasoning: null, tool_calls: [] });
    expect(await none.promptOf(calling, sampled, [result])).toBeNull();
  });

  test.each<[string, ChatMessage[]]>([
    ['an image', [{ role: 'user', content: [{ type: 'image_url', image_url: { url: 'data:,' } }] }]],
    [
      'a turn that was not sampled here',
      [
        { role: 'user', content: 'x' },
        { role: 'assistant', content: 'y' },
      ],
    ],
    ['nothing', []],
  ])('for %s', async (_name, tail) => {
    const { promptOf, rendered } = setting(chatml);
    expect(await promptOf(calling, ['x', '</s>'], tail)).toBeNull();
    expect(rendered).toEqual([]);
  });
});

describe('the answer that a request goes on from', () => {
  const ids = (at: number) => ({
    prompt: Int32Array.of(at),
    completion: Int32Array.of(at),
    ended: true,
    readByEngine: true,
  });
  const said = (content: string): AssistantMessage => ({ role: 'assistant', content });
  const user = (content: string): ChatMessage => ({ role: 'user', content });

  test('is the one with the most unchanged messages before it, of the same agent and tools', () => {
    const calls = new AnsweredCalls();
    calls.add('main', [user('a')], tools, said('1'), ids(1));
    calls.add('main', [user('a'), said('1'), user('b')], tools, said('2'), ids(2));
    const whole = [user('a'), said('1'), user('b'), said('2'), user('c')];
    expect(calls.before('main', whole, tools)?.ids).toEqual(ids(2));
    expect(calls.before('main', whole.slice(0, 3), tools)?.ids).toEqual(ids(1));
    // The history was rewritten behind the first answer.
    expect(calls.before('main', [user('a'), said('1'), user('B'), user('c')], tools)?.ids).toEqual(ids(1));
    expect(calls.before('main', [user('A'), said('1')], tools)).toBeNull();
    expect(calls.before('sub', whole, tools)).toBeNull();
    expect(calls.before('main', whole, [])).toBeNull();
  });

  test('is the agent’s own among several to the same request', () => {
    const calls = new AnsweredCalls();
    for (const at of [1, 2, 3]) calls.add('main', [user('a')], undefined, said(`${at}`), ids(at));
    for (const at of [1, 2, 3])
      expect(calls.before('main', [user('a'), said(`${at}`), user('b')], undefined)?.ids).toEqual(ids(at));
  });

  test('is the latest among equal ones', () => {
    const calls = new AnsweredCalls();
    for (const at of [1, 2]) calls.add('main', [user('a')], undefined, said('same'), ids(at));
    expect(calls.before('main', [user('a'), said('same'), user('b')], undefined)?.ids).toEqual(ids(2));
  });
});
