import type { BudgetStop } from '../../../src/gateway/session.ts';
import { instruction, type Play, type RouteName } from './cli-play.ts';

/** One row: what the policy does to the CLI, and all that must come of it. */
export interface CliScript extends Play {
  readonly name: string;
  /** Where it is played. */
  readonly on: readonly RouteName[];
  readonly ends: {
    readonly code: 0 | 1;
    readonly num_turns: number;
    /** The CLI's last words: its answer, or what it was told. */
    readonly says: string | RegExp;
    readonly terminal_reason?: string;
    readonly budget?: BudgetStop;
    /** Requests that were refused in those words; none is sent again. Default: 0. */
    readonly refused?: number;
    /** Requests that were sent again after a 400, and told the same. Default: 0. */
    readonly repeated?: number;
  };
  /** Role and finish reason of each call, in order; `refused` for one that got no answer. */
  readonly calls: readonly string[];
  /** Role, grade and notes of each sequence. */
  readonly sequences: readonly string[];
  /** What other routes make of the same. */
  readonly but?: Partial<Record<RouteName, Partial<Pick<CliScript, 'ends' | 'calls' | 'sequences'>>>>;
  /** What the tools answered, in the order in which the policy was told. */
  readonly observed?: readonly (string | RegExp)[];
  readonly expectFiles?: Readonly<Record<string, string>>;
}

const fromText = ['vllm', 'vllm streamed', 'sglang'] as const;
const fromIds = ['vllm hostile from ids', 'sglang hostile from ids'] as const;
const everywhere = [...fromText, ...fromIds] as const;
const streamedFromIds = 'vllm streamed hostile from ids' as const;

/** The same for several routes. */
const each = <T>(names: readonly RouteName[], what: T): Partial<Record<RouteName, T>> =>
  Object.fromEntries(names.map((name) => [name, what]));

const bash = (command: string): unknown => ({ name: 'Bash', arguments: { command } });
const play = (...turns: unknown[]): Record<string, unknown[]> => ({ [instruction]: turns });
const nudged = { 'no visible output': [{ text: 'Now I say something.' }] };
const one = { tool_calls: [bash('echo one')] };

const subtask = {
  description: 'Look around',
  prompt: 'Please do the subtask.',
  subagent_type: 'general-purpose',
};

export const cliScripts: readonly CliScript[] = [
  {
    name: 'parallel tools',
    on: everywhere,
    turns: play(
      { text: 'Both.', tool_calls: [bash('sleep 0.2; echo first'), bash('echo second')] },
      { tool_calls: [bash('sleep 0.2; echo 1 > a; echo third'), bash('echo 2 > b; echo fourth')] },
      { text: 'Done.' },
    ),
    ends: { code: 0, num_turns: 5, says: 'Done.' },
    calls: ['main tool_calls', 'main tool_calls', 'main stop'],
    sequences: ['main exact'],
    // Commands that only read run at once and are told as they end; others run in order.
    observed: [/^(first|second)$/, /^(first|second)$/, 'third', 'fourth'],
  },
  {
    name: 'a subagent',
    on: ['vllm', ...fromIds],
    moreTools: ['Agent'],
    turns: {
      'Please do the subtask.': [{ tool_calls: [bash('echo here')] }, { text: 'I looked around.' }],
      ...play({ tool_calls: [{ name: 'Agent', arguments: subtask }] }, { text: 'All is done.' }),
    },
    ends: { code: 0, num_turns: 2, says: 'All is done.' },
    calls: ['main tool_calls', 'subagent tool_calls', 'subagent stop', 'main stop'],
    sequences: ['main exact', 'subagent exact'],
    observed: ['here', /I looked around\./],
  },
  {
    name: 'a subagent whose context overflows',
    on: ['vllm', 'sglang hostile from ids'],
    moreTools: ['Agent'],
    limits: { context_tokens: 12_000 },
    turns: {
      'Please do the subtask.': [{ tool_calls: [bash('seq 1 6000')] }, { text: 'never said' }],
      ...play({ tool_calls: [{ name: 'Agent', arguments: subtask }] }, { text: 'I do without.' }),
    },
    // It is the subagent's end, and no budget of the episode's.
    ends: { code: 0, num_turns: 2, says: 'I do without.', repeated: 1 },
    calls: ['main tool_calls', 'subagent tool_calls', 'subagent refused', 'main stop'],
    sequences: ['main exact', 'subagent exact'],
  },
  {
    name: 'a subagent that uses up the episode’s tokens',
    on: ['vllm', 'vllm streamed hostile from ids'],
    moreTools: ['Agent'],
    splitRate: 0,
    limits: { max_sampled_tokens: 100 },
    turns: {
      'Please do the subtask.': [{ repeat: 10, turns: [{ tool_calls: [bash('echo here')] }] }],
      ...play({ tool_calls: [{ name: 'Agent', arguments: subtask }] }, { text: 'never said' }),
    },
    ends: {
      code: 1,
      num_turns: 2,
      says: "API Error: 402 this episode's budget of 100 sampled tokens is used up",
      // The subagent's, and that of the main agent, which was told how it ended.
      refused: 2,
      terminal_reason: 'api_error',
      budget: 'max_tokens',
    },
    calls: ['main tool_calls', ...Array<string>(5).fill('subagent tool_calls'), 'subagent length'],
    sequences: ['main exact', 'subagent exact truncated_turn'],
  },
  {
    // The CLI drops the turn, and writes its nudge into the message before it.
    name: 'an empty answer',
    on: ['vllm', 'sglang'],
    turns: { ...nudged, ...play(one, { text: '' }) },
    ends: { code: 0, num_turns: 3, says: 'Now I say something.' },
    calls: ['main tool_calls', 'main stop', 'main stop'],
    sequences: ['main forked', 'main forked'],
    observed: ['one'],
  },
  {
    name: 'an answer that only thinks',
    on: ['vllm streamed', ...fromIds],
    turns: { ...nudged, ...play({ thinking: 'Hm.', ...one }, { thinking: 'Nothing to say.' }) },
    ends: { code: 0, num_turns: 3, says: 'Now I say something.' },
    calls: ['main tool_calls', 'main stop', 'main stop'],
    sequences: ['main forked', 'main forked'],
    observed: ['one'],
  },
  {
    name: 'a call whose arguments are no JSON',
    on: everywhere,
    turns: play(
      { tool_calls: [{ name: 'Bash', arguments: '{"command": "echo' }] },
      { text: 'That was no JSON.' },
    ),
    ends: { code: 0, num_turns: 2, says: 'That was no JSON.' },
    calls: ['main tool_calls', 'main stop'],
    sequences: ['main exact'],
    // In text it has to be replaced in the history.
    but: each(fromText, { sequences: ['main forked', 'main forked'] }),
    observed: [/could not be parsed as JSON/],
  },
  {
    name: 'unicode',
    on: everywhere,
    files: ['u.md'],
    turns: play(
      {
        text: 'e\u0301 👩‍👩‍👧 \u2028 a\r\nb  ',
        tool_calls: [
          {
            name: 'Write',
            arguments:
              '{"content" : "e\u0301 \\ud83d\\ude00 👩‍👩‍👧 \u2028\\r\\n\\ud83d.", "file_path":"{{workdir}}/u.md"}',
          },
          bash(String.raw`printf 'e\xcc\x81 \xf0\x9f\x98\x80 \r\n\xe2\x80\xa8\xed\xa0\xbd|'`),
        ],
      },
      { text: 'Ünïcödé 👩‍👩‍👧 \r\n end\u2028 é' },
    ),
    ends: { code: 0, num_turns: 3, says: 'Ünïcödé 👩‍👩‍👧 \r\n end\u2028 é' },
    calls: ['main tool_calls', 'main stop'],
    sequences: ['main exact'],
    // In text the half of a pair has to be replaced in the history: no tokenizer takes it.
    but: each(fromText, { sequences: ['main forked', 'main forked'] }),
    observed: [/created successfully/, 'e\u0301 😀 \r\n\u2028\ufffd\ufffd\ufffd|'],
    expectFiles: { 'u.md': 'e\u0301 😀 👩‍👩‍👧 \u2028\r\n\ufffd.' },
  },
  {
    name: '25 turns',
    on: ['vllm streamed', 'sglang hostile from ids'],
    turns: play(
      { repeat: 24, turns: [{ text: 'Turn {{turn}}.', tool_calls: [bash('echo {{turn}}')] }] },
      { text: 'Counted.' },
    ),
    ends: { code: 0, num_turns: 25, says: 'Counted.' },
    calls: [...Array<string>(24).fill('main tool_calls'), 'main stop'],
    sequences: ['main exact'],
    observed: Array.from({ length: 24 }, (_, at) => String(at)),
  },
  {
    name: 'a context that overflows',
    on: ['vllm', 'sglang', 'sglang hostile from ids'],
    limits: { context_tokens: 14_000 },
    turns: play({ tool_calls: [bash('seq 1 6000')] }, { text: 'never said' }),
    ends: {
      code: 1,
      num_turns: 2,
      says: 'Prompt is too long',
      terminal_reason: 'prompt_too_long',
      budget: 'context_overflow',
      repeated: 1,
    },
    calls: ['main tool_calls', 'main refused'],
    sequences: ['main exact'],
  },
  {
    name: 'a context of the engine’s that overflows before ours',
    on: ['vllm streamed', ...fromIds],
    maxModelLen: 14_000,
    turns: play({ tool_calls: [bash('seq 1 6000')] }, { text: 'never said' }),
    ends: {
      code: 1,
      num_turns: 2,
      says: 'Prompt is too long',
      terminal_reason: 'prompt_too_long',
      budget: 'context_overflow',
      repeated: 1,
    },
    calls: ['main tool_calls', 'main refused'],
    sequences: ['main exact'],
  },
  {
    // The CLI has it go on three times, and gives up.
    name: 'text that runs into max_tokens',
    on: ['vllm streamed', 'sglang'],
    limits: { max_output_tokens: 24 },
    turns: play({ repeat: 10, turns: [{ text: 'word '.repeat(200) }] }),
    ends: {
      code: 1,
      num_turns: 4,
      says: /exceeded the 24 output token maximum/,
      terminal_reason: 'api_error',
    },
    calls: Array<string>(4).fill('main length'),
    sequences: ['main exact truncated_turn'],
  },
  {
    name: 'a tool call that runs into max_tokens',
    on: ['vllm', 'vllm streamed', ...fromIds],
    limits: { max_output_tokens: 24, max_turns: 4 },
    turns: play(one, { repeat: 10, turns: [{ tool_calls: [bash(`echo ${'word '.repeat(200)}`)] }] }),
    // Whole, it is text to the engine. The CLI has it go on as with any text, which it does not count as turns: we do.
    ends: {
      code: 1,
      num_turns: 5,
      says: "API Error: 402 this episode's budget of 4 turns is used up",
      refused: 1,
      terminal_reason: 'api_error',
      budget: 'max_turns',
    },
    calls: ['main tool_calls', ...Array<string>(3).fill('main length')],
    sequences: ['main exact truncated_turn'],
    but: {
      // Streamed, it is a call whose arguments are no JSON.
      'vllm streamed': {
        ends: {
          code: 1,
          num_turns: 5,
          says: 'Reached maximum number of turns (4)',
          terminal_reason: 'max_turns',
        },
        sequences: Array<string>(3).fill('main forked truncated_turn'),
      },
    },
  },
  {
    name: 'thinking, and files written and edited in the policy’s own way of writing JSON',
    on: [...everywhere, 'vllm hostile', streamedFromIds],
    files: ['m.py'],
    turns: play(
      {
        thinking: 'I write it.',
        // The CLI sorts keys, and strips blanks at the end of lines.
        tool_calls: [
          { name: 'Write', arguments: '{"content" : "x = 1  \\ny = 2\\n", "file_path":"{{workdir}}/m.py"}' },
        ],
      },
      {
        thinking: 'Now an edit.',
        text: 'I edit it.',
        // It puts a default in front.
        tool_calls: [
          {
            name: 'Edit',
            arguments:
              '{"new_string":"y = 3   ", "file_path": "{{workdir}}/m.py","old_string":"\\u0079 = 2"}',
          },
        ],
      },
      { thinking: 'It is done.', text: 'Edited.' },
    ),
    ends: { code: 0, num_turns: 3, says: 'Edited.' },
    calls: ['main tool_calls', 'main tool_calls', 'main stop'],
    sequences: ['main exact'],
    but: {
      'vllm hostile': { sequences: ['main forked', 'main forked', 'main forked'] },
    },
    expectFiles: { 'm.py': 'x = 1\ny = 3\n' },
  },
];
