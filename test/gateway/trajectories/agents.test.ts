import { describe, expect, test } from 'vitest';
import type { Sequence } from '../../../src/contracts/index.ts';
import { CliAgent, cliHeaders } from '../support/cli-agent.ts';
import { openGateway, post } from '../support/open-gateway.ts';
import { turnsOf } from '../support/as-sampled.ts';
import type { Loose } from '../support/fake-vllm.ts';
import { endOf, policyOf, told } from './scripted.ts';

const work = [
  {
    repeat: 50,
    turns: [
      {
        thinking: ['Let me see.', 'Hmm, "ü" < 2.'],
        text: ['I look.', '  Once more. ', 'Well, 😀.'],
        tool_calls: [{ name: 'Bash', arguments: '{ "command":"ls \\u00e9" , "n": 5000.0 }' }],
      },
    ],
  },
];

/** `role agent: number of turns, grade` of each sequence, by name. */
const lengthsOf = (sequences: readonly Sequence[]): string[] =>
  sequences
    .map(
      ({ role, agent_id, turns, certificate }) =>
        `${role} ${agent_id}: ${turns.length}, ${certificate.grade}`,
    )
    .sort();

describe('agents of one episode', () => {
  test('subagents and side calls, interleaved, never fork the main agent, nor one another', async () => {
    await using policy = await policyOf(work);
    await using opened = await openGateway(policy.url);
    const { session } = opened;
    const main = new CliAgent(session).tell('Task of the main agent');
    const subagents = ['a1', 'b2'].map((id) =>
      new CliAgent(session, cliHeaders('subagent', id), { system: 'You are an agent.' }).tell(
        'Task of a part',
      ),
    );
    const search = new CliAgent(session, cliHeaders('auxiliary'), { system: 'You search.', tools: [] });
    await main.turn();
    for (let round = 0; round < 3; round++) {
      await Promise.all([main, ...subagents].map((agent) => agent.turn()));
      search.history = [];
      await search.turn('Search for the Task');
    }
    const { sequences } = await endOf(session, policy);
    const chains = sequences.filter(({ role }) => role !== 'auxiliary');
    expect(lengthsOf(chains)).toEqual([
      'main main: 4, exact',
      'subagent a1: 3, exact',
      'subagent b2: 3, exact',
    ]);
    // A side call has no history: each search is a sequence of its own.
    expect(sequences.filter(({ role }) => role === 'auxiliary')).toHaveLength(3);
    expect(session.stats()).toMatchObject({ main_turns: 4, calls: 13, self_calls: 0 });
  });

  test('a side call is no part of the main agent’s history: what the main agent said is not told again', async () => {
    await using policy = await policyOf(work);
    await using opened = await openGateway(policy.url);
    const { session } = opened;
    const main = new CliAgent(session);
    await main.turn('Task');
    await new CliAgent(session, cliHeaders('auxiliary'), { system: 'You search.' }).turn(
      'Search for the Task',
    );
    await main.turn();
    const { records } = await endOf(session, policy);
    expect(records.map(({ role, new_messages: fresh }) => [role, ...fresh.map((each) => each.role)])).toEqual(
      [
        ['main', 'system', 'user'],
        ['auxiliary', 'system', 'user'],
        ['main', 'tool'],
      ],
    );
  });

  test('two subagents with byte-equal prompts at once get a sample each, and go their own ways', async () => {
    await using policy = await policyOf(work);
    await using opened = await openGateway(policy.url);
    const { session } = opened;
    await new CliAgent(session).turn('Task');
    const twins = ['a1', 'b2'].map((id) =>
      new CliAgent(session, cliHeaders('subagent', id)).tell('Task twice'),
    );
    for (let turn = 0; turn < 3; turn++) await Promise.all(twins.map((twin) => twin.turn()));
    expect(policy.samples()).toHaveLength(7);
    const { sequences } = await endOf(session, policy);
    expect(lengthsOf(sequences)).toEqual([
      'main main: 1, exact',
      'subagent a1: 3, exact',
      'subagent b2: 3, exact',
    ]);
  });

  test('a main agent that keeps two conversations alive has two forked chains that both grow', async () => {
    await using policy = await policyOf(work);
    await using opened = await openGateway(policy.url);
    const { session } = opened;
    const one = new CliAgent(session).tell('Task one');
    const two = new CliAgent(session).tell('Task two');
    for (const agent of [one, two, two, one, one, two]) await agent.turn();
    const { sequences } = await endOf(session, policy);
    expect(told(sequences)).toEqual(['main main: 0 3 4, forked', 'main main: 1 2 5, forked']);
  });
});

describe('what the CLI changes with every call', () => {
  test('its billing header, moving cache marks, and a string that becomes a block: one exact chain', async () => {
    await using policy = await policyOf(work);
    await using opened = await openGateway(policy.url);
    const { session } = opened;
    const agent = new CliAgent(session).tell('Task');
    for (let turn = 0; turn < 5; turn++) {
      const plain = agent.history;
      // The mark stands on the last message, which therefore has blocks; a first text is a block once, then a string.
      agent.history = plain.map((message: Loose, at) => {
        if (at < plain.length - 1) return message;
        const blocks =
          typeof message.content === 'string' ? [{ type: 'text', text: message.content }] : message.content;
        const marked = { ...blocks.at(-1), cache_control: { type: 'ephemeral' } };
        return { ...message, content: [...blocks.slice(0, -1), marked] };
      });
      const heard = await agent.send(undefined, {
        system: [
          {
            type: 'text',
            text: `x-anthropic-billing-header: cc_version=2.1.332; cch=${turn}abc${turn * 7};`,
          },
          { type: 'text', text: 'You work.', cache_control: { type: 'ephemeral' } },
        ],
        metadata: { user_id: `{"session_id":"${turn}"}` },
      });
      agent.history = plain;
      agent.take(heard);
    }
    const { sequences } = await endOf(session, policy);
    expect(told(sequences)).toEqual(['main main: 0 1 2 3 4, exact']);
  });

  test('results of parallel calls in the order in which they ended', async () => {
    const call = (command: string): { name: string; arguments: string } => ({
      name: 'Bash',
      arguments: `{"command" : "${command}"}`,
    });
    await using policy = await policyOf([
      { text: 'All at once.', tool_calls: [call('a'), call('b'), call('c')] },
      { text: 'Done.' },
    ]);
    await using opened = await openGateway(policy.url);
    const agent = new CliAgent(opened.session);
    await agent.turn('Task');
    const { content } = agent.history.at(-1);
    agent.history = [...agent.history.slice(0, -1), { role: 'user', content: content.toReversed() }];
    await agent.turn();
    await agent.turn('And now?');
    const { sequences } = await endOf(opened.session, policy);
    expect(told(sequences)).toEqual(['main main: 0 1 2, exact']);
  });
});

describe('best of n', () => {
  test('the same body at once, n times, by a client that is no CLI: n samples, each in exactly one sequence', async () => {
    await using policy = await policyOf(work);
    await using opened = await openGateway(policy.url);
    const { session } = opened;
    const ask = async (list: readonly unknown[]): Promise<Loose> => {
      const tools = [{ type: 'function', function: { name: 'Bash', parameters: { type: 'object' } } }];
      const response = await post(session, '/v1/chat/completions', { model: 'm', messages: list, tools });
      return ((await response.json()) as Loose).choices[0].message;
    };
    let history: readonly unknown[] = [{ role: 'user', content: 'Task' }];
    for (let turn = 0; turn < 3; turn++) {
      const answers = await Promise.all(Array.from({ length: 4 }, () => ask(history)));
      const best = answers[turn];
      const results = best.tool_calls.map(({ id }: Loose) => ({
        role: 'tool',
        tool_call_id: id,
        content: 'ok',
      }));
      history = [...history, best, ...results];
    }
    const { sequences, records, usage } = await endOf(session, policy);
    expect(policy.samples()).toHaveLength(12);
    expect(records.map(({ fate }) => fate)).toEqual(Array.from({ length: 12 }, () => 'delivered'));
    // Of the four that go on from one answer the first continues its chain; the others hold it as their prompt.
    expect(sequences).toHaveLength(4 + 3 + 3);
    expect(turnsOf(sequences)).toEqual(records.map(({ index }) => index));
    expect(new Set(sequences.map(({ certificate }) => certificate.grade))).toEqual(new Set(['forked']));
    expect(usage.discarded_tokens).toBe(0);
  });
});
