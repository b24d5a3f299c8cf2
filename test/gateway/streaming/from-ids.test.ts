import { expect, test } from 'vitest';
import { parseScripts, startScriptedPolicy } from '../../../src/policy/index.ts';
import { buildSequences } from '../../../src/trajectory/index.ts';
import { foldEvents } from '../dialects/strict-stream.ts';
import type { Loose } from '../support/fake-vllm.ts';
import { openGateway } from '../support/open-gateway.ts';
import { StreamReader, streamBody } from './reading.ts';

const tools = [{ name: 'Bash', input_schema: { type: 'object', properties: {} } }];

const turns = [
  {
    thinking: 'First I look.',
    text: 'I look.  ',
    tool_calls: [{ name: 'Bash', arguments: '{"command" : "ls\\u002d",  "n":1.0}' }],
  },
  {
    thinking: 'Two at once: é 😀',
    tool_calls: [
      { name: 'Bash', arguments: '{"a":"b  ", "path":"\\/x"}' },
      { name: 'Bash', arguments: '{"b":1,"a":2}' },
    ],
  },
  { text: `I tell it at length: ${'word '.repeat(60)}`, tool_calls: [{ name: 'Bash', arguments: '{}' }] },
  { text: 'All done. ✓' },
];

test('an episode that goes on from ids is passed on while it comes, and is one exact sequence', async () => {
  await using policy = await startScriptedPolicy({
    scripts: parseScripts({ schema: 'rollpool.scripts/1', scripts: [{ match: 'Task A', turns }] }),
    seed: 5,
    model: 'policy',
    template: 'hostile',
    splitRate: 0.2,
    tokenMs: 2,
  });
  await using opened = await openGateway(policy.url, { policy: { streaming: true, callFormat: 'hermes' } });
  let history: Loose[] = [{ role: 'user', content: 'Task A' }];
  const told: Loose[] = [];
  for (const [turn] of turns.entries()) {
    const reader = await StreamReader.open(
      opened.session,
      'anthropic',
      streamBody('', { messages: history, tools }),
    );
    if (turn === 2) {
      await reader.until('word word');
      expect(reader.over).toBe(false);
      expect(opened.session.stats().calls).toBe(3);
    }
    const answer = foldEvents(await reader.all());
    told.push(answer);
    const calls = answer.content.filter(({ type }: Loose) => type === 'tool_use');
    history = [
      ...history,
      { role: 'assistant', content: answer.content.filter(({ type }: Loose) => type !== 'thinking') },
      { role: 'user', content: calls.map(({ id }: Loose) => ({ type: 'tool_result', tool_use_id: id })) },
    ];
  }
  const records = await opened.session.finish();
  const { sequences } = buildSequences(records);
  expect(
    sequences.map(({ certificate, turns: parts }) => [certificate.grade, certificate.reasons, parts.length]),
  ).toEqual([['exact', [], turns.length]]);
  for (const [at, { answer }] of records.entries()) {
    const { content, reasoning, tool_calls: calls = [] } = answer as Loose;
    const joined = (kind: string): string =>
      told[at].content.map((block: Loose) => (block[kind] ?? '') as string).join('');
    expect([joined('text'), joined('thinking')]).toEqual([content ?? '', reasoning ?? '']);
    expect(told[at].content.filter(({ id }: Loose) => id).map(({ id }: Loose) => id as string)).toEqual(
      calls.map(({ id }: Loose) => id as string),
    );
    expect(told[at].usage).toMatchObject({ input_tokens: records[at]!.prompt_token_ids!.length });
  }
});
