import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { loadScripts, parseScripts } from '../../src/policy/script-file.ts';
import type { RequestMessage } from '../../src/policy/chat-request.ts';
import type { Script, ScriptStep } from '../../src/policy/script-schema.ts';
import { findWorkdir } from '../../src/policy/script-turn.ts';
import { findScript, walkScript } from '../../src/policy/script-walk.ts';

const file = (turns: unknown): unknown => ({
  schema: 'rollpool.scripts/1',
  scripts: [{ match: 'Task A', turns }],
});
const scriptOf = (turns: unknown): Script => {
  const [script] = parseScripts(file(turns));
  if (script === undefined) throw new Error('no script');
  return script;
};
const user: RequestMessage = { role: 'user', content: 'Task A, please.' };
const bash = (command: string) => ({ name: 'Bash', arguments: { command } });

function said(content: string, ...commands: string[]): RequestMessage {
  return {
    role: 'assistant',
    content,
    tool_calls: commands.map((text, at) => ({
      id: `c${at}`,
      type: 'function',
      function: { name: 'Bash', arguments: text },
    })),
  };
}
const result = (content: string): RequestMessage => ({ role: 'tool', tool_call_id: 'c0', content });

function next(script: Script, history: RequestMessage[]): [number, string][] {
  const { options } = walkScript(script, 0, [user, ...history], { workdir: '/w', turn: 0 });
  return options.map(({ weight, turn }) => [
    Number(weight.toFixed(4)),
    turn.kind === 'raw' ? turn.text : (turn.texts[0] ?? ''),
  ]);
}

describe('a scripts file', () => {
  it.each([
    ['a missing turn', [], 'scripts[0].turns: '],
    ['an unknown field', [{ txt: 'a' }], 'scripts[0].turns[0]: Unrecognized key: "txt"'],
    ['an empty turn', [{}], 'scripts[0].turns[0]: a turn needs text, thinking, tool_calls or raw'],
    ['raw beside text', [{ raw: 'a', text: 'b' }], 'scripts[0].turns[0]: raw is a whole turn'],
    [
      'a probability of nothing',
      [{ branches: [{ p: 0, turns: [] }] }],
      'scripts[0].turns[0].branches[0].p: ',
    ],
    [
      'a deep fault',
      [{ branches: [{ turns: [{ text: 'a' }, { tool_calls: [{ nam: 'x' }] }] }] }],
      'scripts[0].turns[0].branches[0].turns[1].tool_calls[0].name: ',
    ],
    [
      'conditions alone',
      [{ branches: [{ when_tool_result_contains: 'x', turns: [] }] }],
      'scripts[0].turns[0].branches: one branch must have no condition',
    ],
    ['a repeat of nothing', [{ repeat: 0, turns: [{ text: 'a' }] }], 'scripts[0].turns[0].repeat: '],
  ])('with %s is refused, naming the field', (_name, turns, fault) => {
    expect(() => parseScripts(file(turns), 'demo.json')).toThrow(`demo.json: ${fault}`);
  });

  it('that is not there or not JSON is refused with its place', async () => {
    await expect(loadScripts('/nowhere/a.json')).rejects.toThrow('/nowhere/a.json: cannot be read (ENOENT)');
    const directory = await mkdtemp(join(tmpdir(), `rollpool-scripts-${process.pid}-`));
    try {
      const path = join(directory, 'a.json');
      await writeFile(path, '{\n  "schema": oops }');
      await expect(loadScripts(path)).rejects.toThrow(`${path}: is not JSON: line 2, column 13`);
      await writeFile(path, JSON.stringify(file([{ text: 'hello' }])));
      await expect(loadScripts(path)).resolves.toHaveLength(1);
    } finally {
      await rm(directory, { recursive: true });
    }
  });
});

describe('the place in a script', () => {
  const turns: ScriptStep[] = [
    { text: 'one', tool_calls: [bash('a')] },
    {
      branches: [
        { p: 3, turns: [{ text: 'left', tool_calls: [bash('l')] }, { text: 'left end' }] },
        { p: 1, turns: [{ text: 'right', tool_calls: [bash('r')] }] },
      ],
    },
    { text: 'last' },
  ];
  const script = scriptOf(turns);
  const start = [said('one', '{"command": "a"}'), result('ok')];

  it('follows from the assistant turns of the request alone', () => {
    expect(next(script, [])).toEqual([[1, 'one']]);
    expect(next(script, start)).toEqual([
      [0.75, 'left'],
      [0.25, 'right'],
    ]);
    expect(next(script, [...start, said('left', '{"command":"l"}'), result('')])).toEqual([[1, 'left end']]);
    expect(next(script, [...start, said('right', '{"command":"r"}'), result('')])).toEqual([[1, 'last']]);
  });

  it('is found again when a client rewrote spacing, key order or text', () => {
    const two = scriptOf([
      {
        branches: [
          {
            turns: [
              { tool_calls: [{ name: 'Bash', arguments: { command: 'x', description: 'd' } }] },
              { text: 'X' },
            ],
          },
          {
            turns: [
              { tool_calls: [{ name: 'Bash', arguments: { command: 'y', description: 'd' } }] },
              { text: 'Y' },
            ],
          },
        ],
      },
    ]);
    expect(next(two, [said('', '{"description":"d","command":"y"}')])).toEqual([[1, 'Y']]);
    expect(next(script, [said('something else', '{}')])).toHaveLength(2);
  });

  it('stays open between branches that began alike, by their weights', () => {
    const alike = scriptOf([
      {
        branches: [
          { p: 1, turns: [{ text: 'same' }, { text: 'A' }] },
          { p: 3, turns: [{ text: 'same' }, { text: 'B' }] },
        ],
      },
    ]);
    expect(next(alike, [said('same')])).toEqual([
      [0.25, 'A'],
      [0.75, 'B'],
    ]);
  });

  it('takes a branch whose tool result has come, and the unconditional one otherwise', () => {
    const conditional = scriptOf([
      { tool_calls: [bash('a')] },
      {
        branches: [
          { when_tool_result_contains: 'No such file', turns: [{ text: 'recover' }] },
          { turns: [{ text: 'go on' }] },
        ],
      },
    ]);
    const first = said('', '{"command": "a"}');
    expect(next(conditional, [first, result('cat: x: No such file')])).toEqual([[1, 'recover']]);
    expect(next(conditional, [first, result('fine')])).toEqual([[1, 'go on']]);
  });

  it('repeats turns and counts them', () => {
    const repeated = scriptOf([
      { repeat: 2, turns: [{ text: 'turn {{turn}} in {{workdir}}' }] },
      { text: 'end' },
    ]);
    expect(next(repeated, [])).toEqual([[1, 'turn 0 in /w']]);
    expect(next(repeated, [said('turn 0 in /w')])).toEqual([[1, 'turn 1 in /w']]);
    expect(next(repeated, [said('turn 0 in /w'), said('turn 1 in /w')])).toEqual([[1, 'end']]);
    expect(next(repeated, [said('a'), said('b'), said('end')])).toEqual([]);
  });

  it('begins at the last user message that names the task', () => {
    const messages: RequestMessage[] = [user, said('one', '{}'), user];
    expect(findScript([script], messages)?.at).toBe(2);
    expect(findScript([script], [{ role: 'user', content: 'Task B' }])).toBeNull();
  });
});

it.each([
  ['# Environment\n - Primary working directory: /tmp/a b\n - Platform: linux', '/tmp/a b'],
  ['<env>\nWorking directory: /srv/task/\n</env>', '/srv/task'],
  ['CWD: /x', '/x'],
  ['nothing', '/workspace'],
])('the working directory is read from %j', (content, workdir) => {
  expect(findWorkdir([user, { role: 'system', content }])).toBe(workdir);
});
