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

  test('without it the hostile template breaks every prefix', async () => {
    await using policy = await start({ engine, template: 'hostile' });
    await using opened = await openGateway(policy.url, { policy: { engine } });
    const { sequences } = buildSequences(await play(opened));
    expect(new Set(sequences.map(({ certificate }) => certificate.grade))).toEqual(new Set(['forked']));
  });
});
