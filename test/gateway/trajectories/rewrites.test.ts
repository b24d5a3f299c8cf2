import { describe, expect, test } from 'vitest';
import type { Grade } from '../../../src/contracts/index.ts';
import { CliAgent } from '../support/cli-agent.ts';
import { completion, FakeVllm, json } from '../support/fake-vllm.ts';
import { openGateway } from '../support/open-gateway.ts';
import { buildSequences } from '../../../src/trajectory/index.ts';
import type { ScriptStep } from '../../../src/policy/script-schema.ts';
import { endOf, policyOf, told, type Ended } from './scripted.ts';

const look: ScriptStep = { text: 'I look.', tool_calls: [{ name: 'Bash', arguments: '{"command":"ls"}' }] };
const done: ScriptStep = { text: 'Done.' };

const templates = ['plain', 'hostile'] as const;

/** An episode of the CLI: `turns` turns, one prompt, results for its calls. */
async function play(
  steps: readonly ScriptStep[],
  template: (typeof templates)[number],
  turns = steps.length,
): Promise<Ended & { agent: CliAgent }> {
  await using policy = await policyOf(steps, { template });
  await using opened = await openGateway(policy.url);
  const agent = new CliAgent(opened.session).tell('Task');
  for (let turn = 0; turn < turns; turn++) expect((await agent.turn()).status).toBe(200);
  return { ...(await endOf(opened.session, policy)), agent };
}

const grades = ({ sequences }: Ended): Grade[] => sequences.map(({ certificate }) => certificate.grade);

describe.each(templates)('histories that the CLI rewrites, under the %s template:', (template) => {
  // facts: claude-code 3a. The turn is dropped, and the user message before it gets a reminder.
  test.each([
    ['an empty answer', { text: '' }],
    ['one of white space', { text: ' \n ' }],
    ['one of thinking alone', { thinking: 'Nothing to say.', text: '' }],
  ] as const)('%s forks, and every token is as it was sampled', async (_name, step) => {
    const ended = await play([look, step, done], template);
    expect(ended.agent.history[2].content.at(-1).text).toContain('no visible output');
    expect(ended.records.map(({ fate }) => fate)).toEqual(['delivered', 'delivered', 'delivered']);
    expect(ended.sequences.length).toBeGreaterThan(1);
    expect(new Set(grades(ended))).toEqual(new Set(['forked']));
    // The dropped answer was sampled and delivered: its tokens count like all others.
    expect(ended.usage.discarded_tokens).toBe(0);
  });

  test.each([
    ['whose JSON is broken', '{"command": "ls'],
    ['whose JSON is no object', '["ls"]'],
    ['that is nothing but text', 'ls -l'],
  ])('a tool call %s comes back in the CLI’s wrapping, and is never untrainable', async (_name, given) => {
    const broken = { text: 'I try.', tool_calls: [{ name: 'Bash', arguments: given }] };
    const ended = await play([look, broken, look, done], template);
    expect(ended.records[1]!.answer).toMatchObject({ tool_calls: [{ function: { arguments: given } }] });
    expect(grades(ended)).not.toContain('untrainable');
  });

  test('a call that its token limit cut, in whatever form the engine gives it, is never untrainable', async () => {
    await using policy = await policyOf([look, done], { template });
    await using opened = await openGateway(policy.url);
    const agent = new CliAgent(opened.session).tell('Task');
    agent.take(await agent.send(undefined, { max_tokens: 7 }));
    await agent.turn('<system-reminder>Output token limit hit. Resume directly</system-reminder>');
    const ended = await endOf(opened.session, policy);
    expect(ended.sequences[0]!.turns[0]).toMatchObject({ truncated: true, finish_reason: 'length' });
    expect(ended.sequences[0]!.certificate.notes).toContain('truncated_turn');
    expect(grades(ended)).not.toContain('untrainable');
  });

  test('a summary in the place of the history forks, and what came before stays whole', async () => {
    await using policy = await policyOf([look, look, done], { template });
    await using opened = await openGateway(policy.url);
    const agent = new CliAgent(opened.session).tell('Task');
    await agent.turn();
    await agent.turn();
    // The side call that compaction makes has the main agent's own headers (facts: claude-code 4).
    const before = agent.history;
    await agent.turn('Do NOT call any tools. <analysis><summary>');
    agent.history = [];
    await agent.turn('Summary of the Task so far: all is well.');
    const ended = await endOf(opened.session, policy);
    expect(before).toHaveLength(5);
    expect(grades(ended).length).toBeGreaterThan(1);
    expect(new Set(grades(ended))).toEqual(new Set(['forked']));
  });

  test('a step back and another way forward: both ways count, what they share only once', async () => {
    await using policy = await policyOf([look, look, look, done], { template });
    await using opened = await openGateway(policy.url);
    const agent = new CliAgent(opened.session).tell('Task');
    await agent.turn();
    const back = agent.history;
    await agent.turn();
    agent.history = back;
    await agent.turn('No, otherwise.');
    const ended = await endOf(opened.session, policy);
    expect(new Set(grades(ended))).toEqual(new Set(['forked']));
    const masked = ended.sequences.reduce(
      (sum, { loss_mask: mask }) => sum + mask.filter((bit) => bit === 1).length,
      0,
    );
    expect(masked).toBe(ended.usage.completion_tokens);
  });
});

test('3b: an engine that says tool_calls and gives none: the CLI is told of an end, and keeps the turn', async () => {
  const ids = [[11, 12], [21]];
  const prompts = [[1], [1, 11, 12, 2]];
  let asked = 0;
  await using vllm = await FakeVllm.start((_request, response) => {
    const at = asked++;
    json(
      response,
      200,
      completion({ content: 'I call.', finish: 'tool_calls', ids: ids[at]!, prompt: prompts[at]! }),
    );
  });
  await using opened = await openGateway(vllm.url);
  const agent = new CliAgent(opened.session).tell('Task');
  expect((await agent.turn()).stop).toBe('end_turn');
  await agent.turn('Go on.');
  expect(vllm.bodies[1].messages).toHaveLength(4);
  const { sequences } = buildSequences(await opened.session.finish());
  expect(told(sequences)).toEqual(['main main: 0 1, exact']);
});

test('3c: tool ids that the policy repeats are other ones to the CLI, which would drop the second turn', async () => {
  const call = { name: 'Bash', arguments: '{}', id: '0' };
  await using vllm = await FakeVllm.start((_request, response) =>
    json(response, 200, completion({ tools: [call, call] })),
  );
  await using opened = await openGateway(vllm.url);
  const agent = new CliAgent(opened.session).tell('Task');
  const heard = [await agent.turn(), await agent.turn()];
  const seen = heard.flatMap(({ blocks }) => blocks.map(({ id }) => id as string));
  expect(new Set(seen).size).toBe(4);
});
