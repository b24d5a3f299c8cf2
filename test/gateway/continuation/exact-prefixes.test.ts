import { describe, expect, test } from 'vitest';
import type { CallRecord } from '../../../src/contracts/index.ts';
import {
  parseScripts,
  startScriptedPolicy,
  type ScriptedPolicy,
  type ScriptedPolicyOptions,
} from '../../../src/policy/index.ts';
import { buildSequences } from '../../../src/trajectory/index.ts';
import type { Loose } from '../support/fake-vllm.ts';
import { messages, openGateway, type Opened } from '../support/open-gateway.ts';

const tools = ['Bash', 'Edit'].map((name) => ({ name, input_schema: { type: 'object', properties: {} } }));

/** Argument strings that no dump gives back, thinking that templates strip, a bad call, half an emoji, an end of its own. */
const turns = [
  {
    thinking: 'First I look.',
    text: 'I look.  ',
    tool_calls: [{ name: 'Bash', arguments: '{"command" : "ls\\u002d",  "n":1.0}' }],
  },
  {
    thinking: 'Two at once: é 😀',
    tool_calls: [
      { name: 'Edit', arguments: '{"old_string":"a","new_string":"b  ", "path":"\\/x"}' },
      { name: 'Bash', arguments: '{"b":1,"a":2,"a":3}' },
    ],
  },
  { tool_calls: [{ name: 'Bash', arguments: '{"command": "echo' }] },
  {
    thinking: 'Nearly.',
    text: 'Well <|im_end|> is a token of mine.',
    tool_calls: [{ name: 'Bash', arguments: '{}' }],
  },
  { text: 'All done. ✓' },
];

async function start(options: Partial<ScriptedPolicyOptions>): Promise<ScriptedPolicy> {
  const scripts = parseScripts({ schema: 'rollpool.scripts/1', scripts: [{ match: 'Task A', turns }] });
  return startScriptedPolicy({ scripts, seed: 5, model: 'policy', splitRate: 0.2, ...options });
}

/** An agent's echo of an answer: input parsed and dumped again with its keys sorted, thinking dropped. */
function echo(answer: Loose): Loose {
  return {
    role: 'assistant',
    content: answer.content
      .filter((block: Loose) => block.type !== 'thinking')
      .map((block: Loose) =>
        block.type === 'tool_use'
          ? { ...block, input: Object.fromEntries(Object.entries(block.input).sort()) }
          : block,
      ),
  };
}

const results = (answer: Loose): Loose[] =>
  answer.content
    .filter((block: Loose) => block.type === 'tool_use')
    .map((block: Loose, at: number) => ({
      type: 'tool_result',
      tool_use_id: block.id,
      content: `result ${at}`,
    }));

/** Plays an episode whose history is only ever appended to. */
async function play(
  opened: Opened,
  change: (history: Loose[], turn: number) => Loose[] = (same) => same,
): Promise<CallRecord[]> {
  let history: Loose[] = [{ role: 'user', content: 'Task A' }];
  for (let turn = 0; turn < turns.length; turn++) {
    history = change(history, turn);
    const response = await messages(opened.session, history, { system: 'You work.', tools, max_tokens: 400 });
    const answer: Loose = await response.json();
    expect(response.status, JSON.stringify(answer)).toBe(200);
    history = [...history, echo(answer), { role: 'user', content: results(answer) }];
  }
  return [...(await opened.session.finish())];
}

function expectWhatWasSampled(policy: ScriptedPolicy, records: readonly CallRecord[]): void {
  const sampled = policy
    .samples()
    .filter(({ token_ids }) => token_ids.length > 1 || policy.samples().length === records.length);
  for (const record of records) {
    expect(
      sampled.some(
        (each) =>
          each.prompt_token_ids.length === record.prompt_token_ids!.length &&
          each.prompt_token_ids.every((id, at) => id === record.prompt_token_ids![at]) &&
          each.token_ids.every((id, at) => id === record.token_ids![at]) &&
          each.logprobs.every((logprob, at) => logprob === record.logprobs![at]),
      ),
    ).toBe(true);
  }
}

const engines = ['vllm', 'sglang'] as const;

describe.each(engines)('%s, continued from recorded ids', (engine) => {
  test.each(['plain', 'hostile'] as const)(
    'under the %s template an append-only episode is one exact sequence',
    async (template) => {
      await using policy = await start({ engine, template });
      await using opened = await openGateway(policy.url, { policy: { engine, callFormat: 'hermes' } });
      const records = await play(opened);
      expectWhatWasSampled(policy, records);
      const { sequences } = buildSequences(records);
      expect(
        sequences.map(({ certificate, turns: parts }) => [
          certificate.grade,
          certificate.reasons,
          parts.length,
        ]),
      ).toEqual([['exact', [], turns.length]]);
    },
  );

  test('a text, a cut answer, system notes in mid-conversation and more from the user: still one sequence', async () => {
    const talk = [
      { text: 'What shall I do?  ' },
      { thinking: 'Now.', text: 'A very long answer that does not fit into what is left of the limit.' },
      { text: 'Anything else?' },
      { text: 'Bye.' },
    ];
    const scripts = parseScripts({
      schema: 'rollpool.scripts/1',
      scripts: [{ match: 'Task B', turns: talk }],
    });
    await using policy = await startScriptedPolicy({
      scripts,
      seed: 5,
      model: 'policy',
      engine,
      template: 'hostile',
    });
    await using opened = await openGateway(policy.url, { policy: { engine, callFormat: 'hermes' } });
    const said: Loose[] = [
      [{ role: 'user', content: 'Task B' }],
      [{ role: 'user', content: 'Write.' }],
      [
        { role: 'system', content: 'Note: a file changed.' },
        { role: 'user', content: 'Go on.' },
        { role: 'system', content: 'Note: another one did.' },
      ],
      [{ role: 'user', content: [{ type: 'text', text: 'é 😀 <|im_end|>' }] }],
    ];
    let history: Loose[] = [];
    for (const [turn, messagesOfTurn] of said.entries()) {
      history = [...history, ...messagesOfTurn];
      const response = await messages(opened.session, history, { max_tokens: turn === 1 ? 6 : 200 });
      const answer: Loose = await response.json();
      expect(response.status, JSON.stringify(answer)).toBe(200);
      expect(answer.stop_reason).toBe(turn === 1 ? 'max_tokens' : 'end_turn');
      history = [...history, echo(answer)];
    }
    const records = await opened.session.finish();
    expectWhatWasSampled(policy, records);
    const { sequences } = buildSequences(records);
    expect(sequences.map(({ certificate }) => certificate)).toEqual([
      { grade: 'exact', reasons: [], notes: ['truncated_turn'] },
    ]);
    // The cut turn was closed with a token that nobody sampled.
    const [{ turns: parts, token_ids, loss_mask }] = sequences as [(typeof sequences)[number]];
    expect([token_ids[parts[1]!.end], loss_mask[parts[1]!.end]]).toEqual([258, 0]);
  });

  test('where the agent rewrote its history the prompt goes on from the last answer before that', async () => {
    await using policy = await start({ engine, template: 'hostile' });
    await using opened = await openGateway(policy.url, { policy: { engine, callFormat: 'hermes' } });
    // The third request's last results are other ones by the time of the fourth.
    const records = await play(opened, (history, turn) =>
      turn === 3
        ? [
            ...history.slice(0, 4),
            { role: 'user', content: [...history[4].content, { type: 'text', text: 'Hm.' }] },
            ...history.slice(5),
          ]
        : history,
    );
    expectWhatWasSampled(policy, records);
    const { sequences } = buildSequences(records);
    expect(sequences.map(({ certificate }) => [certificate.grade, ...certificate.reasons])).toEqual([
      ['forked'],
      ['forked'],
    ]);
    expect(sequences.map(({ turns: parts }) => parts.map(({ call }) => call))).toEqual([
      [0, 1, 2],
      [3, 4],
    ]);
  });

  test('two replicas: what one sampled the other goes on from', async () => {
    await using one = await start({ engine, template: 'hostile' });
    await using other = await start({ engine, template: 'hostile' });
    await using opened = await openGateway([one.url, other.url], {
      policy: { engine, callFormat: 'hermes' },
    });
    const records = await play(opened, (history, turn) => {
      if (turn === 2) one.fault(Array.from({ length: 8 }, () => ({ kind: 'status' as const, status: 500 })));
      return history;
    });
    const { sequences } = buildSequences(records);
    expect(sequences.map(({ certificate }) => certificate)).toEqual([
      { grade: 'exact', reasons: [], notes: ['replica_moved'] },
    ]);
  });

  test('without it the hostile template breaks every prefix', async () => {
    await using policy = await start({ engine, template: 'hostile' });
    await using opened = await openGateway(policy.url, { policy: { engine } });
    const { sequences } = buildSequences(await play(opened));
    expect(new Set(sequences.map(({ certificate }) => certificate.grade))).toEqual(new Set(['forked']));
  });
});
