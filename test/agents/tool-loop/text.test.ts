import { describe, expect, it } from 'vitest';
import { FakeVllm, sample } from '../../gateway/support/fake-vllm.ts';
import { pixel } from './notebook.ts';
import { expectExact, openStage, scripted, told } from './stage.ts';

const called = (name: string, args: Record<string, unknown>): string =>
  `<tool_call>${JSON.stringify({ name, arguments: args })}</tool_call>`;
const noCall = expect.stringMatching(/^No tool call found/) as string;

describe('the tool loop with tool calls as text', () => {
  it('reads calls in the policy’s text and answers in user messages, all in one exact sequence', async () => {
    await using stage = await scripted([
      { thinking: 'Hm.', text: `I write. ${called('write', { page: 'a', text: 'é</tool_call>' })}` },
      { text: `<function_call>{"tool": "read", "params": {"page": "a"}` },
      { text: called('read', { page: 'none' }) },
      { text: 'All done. <DONE>' },
    ]);
    const { outcome, environment, calls, sequences } = await stage.play({ toolMode: 'text' });
    expect(environment.pages.get('a')).toBe('é</tool_call>');
    expect(told(calls)).toEqual([
      { role: 'user', content: 'Tool result:\nwrote a' },
      { role: 'user', content: 'Tool result:\né</tool_call>' },
      { role: 'user', content: 'Error: no page none' },
    ]);
    expect(outcome).toMatchObject({
      ending: 'agent_done',
      final_answer: null,
      metrics: { tool_calls: 3, tool_errors: 1, invalid_calls: 0, submitted: false },
    });
    expectExact(stage.policy, sequences);
  });

  it('stays exact over a long episode', async () => {
    const turn = called('write', { page: 'p{{turn}}', text: 'text' });
    await using stage = await scripted([
      { repeat: 40, turns: [{ text: [`Again. ${turn}`, `Once more: ${turn}`] }] },
      { text: '<done>' },
    ]);
    const { environment, sequences } = await stage.play({ toolMode: 'text', limits: { max_turns: 60 } });
    expect(environment.pages.size).toBe(40);
    expect(sequences[0]!.turns).toHaveLength(41);
    expectExact(stage.policy, sequences);
  });

  it('tells the policy of the tools in the system message and sends the engine none', async () => {
    await using vllm = await FakeVllm.start(sample({ content: '[done]' }));
    await using stage = await openStage(vllm.url, 'policy');
    const { outcome } = await stage.play({ toolMode: 'text' });
    expect(outcome.ending).toBe('agent_done');
    expect(vllm.bodies[0].tools).toBeUndefined();
    const [system, user] = vllm.bodies[0].messages;
    expect(user).toEqual({ role: 'user', content: 'Play the script.' });
    const lines = (system.content as string).split('\n').filter((line) => line.startsWith('{'));
    expect(lines.map((line) => (JSON.parse(line) as { name: string }).name)).toEqual([
      'write',
      'read',
      'photograph',
      'wait',
    ]);
    await stage.play({ toolMode: 'text' });
    expect(vllm.bodies[1].messages[0]).toEqual(system);
  });

  it('makes the first call of a turn only', async () => {
    await using stage = await scripted([
      { text: called('write', { page: 'a', text: '1' }) + called('write', { page: 'b', text: '2' }) },
      { text: '<done>' },
    ]);
    const { environment } = await stage.play({ toolMode: 'text' });
    expect([...environment.pages]).toEqual([['a', '1']]);
  });

  it('says when a turn has neither a call nor a done marker, calls inside of thinking not counted', async () => {
    await using stage = await scripted([
      { text: 'What now?' },
      { text: `<think>${called('write', { page: 'a', text: '1' })} and then <done></think>` },
      { text: '<done>' },
    ]);
    const { environment, calls, sequences } = await stage.play({ toolMode: 'text' });
    expect(told(calls)).toEqual([
      { role: 'user', content: noCall },
      { role: 'user', content: noCall },
    ]);
    expect(environment.called).toEqual([]);
    expectExact(stage.policy, sequences);
  });

  it('makes a call that stands beside the done marker, and ends unless the call was invalid', async () => {
    await using stage = await scripted([
      { text: `${called('erase', {})} <done>` },
      { text: '<tool_call>erase everything</tool_call> <done>' },
      { text: `${called('write', { page: 'a', text: '1' })} <done>` },
      { text: 'never said' },
    ]);
    const { outcome, environment, calls, stats } = await stage.play({ toolMode: 'text' });
    expect(told(calls)).toEqual([
      { role: 'user', content: expect.stringMatching(/^Error: there is no tool "erase"/) as string },
      { role: 'user', content: 'Error: the tool call could not be read: it is not a JSON object' },
    ]);
    expect(environment.called).toEqual(['write']);
    expect(stats.main_turns).toBe(3);
    expect(outcome).toMatchObject({ ending: 'agent_done', metrics: { invalid_calls: 2 } });
  });

  it('does not complete a call that the token limit cut off', async () => {
    const long = 'word '.repeat(20);
    await using stage = await scripted([
      { text: `<tool_call>{"name": "write", "arguments": {"page": "a", "text": "${long}"}}` },
      { text: `${long}${long}` },
      { text: '<done>' },
    ]);
    const { environment, calls, sequences } = await stage.play({
      toolMode: 'text',
      limits: { max_output_tokens: 30 },
    });
    expect(environment.called).toEqual([]);
    expect(told(calls)).toEqual([
      { role: 'user', content: expect.stringContaining('the message was cut off inside it') as string },
      { role: 'user', content: expect.stringMatching(/cut off.*No tool call found/) as string },
    ]);
    expectExact(stage.policy, sequences);
  });

  it('ends with the answer that the policy submits', async () => {
    const prompt = 'Play the script. End with submit_final_answer.';
    await using stage = await scripted([{ text: called('submit_final_answer', { answer: '42' }) }]);
    const { outcome, sequences } = await stage.play({ toolMode: 'text', prompt });
    expect(outcome).toMatchObject({ ending: 'agent_done', final_answer: '42', metrics: { submitted: true } });
    expectExact(stage.policy, sequences);
  });

  it('shows images beside their result', async () => {
    await using vllm = await FakeVllm.start(
      sample({ prompt: [1, 2], ids: [3, 4], content: called('photograph', {}) }),
      sample({ prompt: [1, 2, 3, 4, 5], ids: [6], content: '<done>' }),
    );
    await using stage = await openStage(vllm.url, 'policy');
    const { sequences } = await stage.play({ toolMode: 'text' });
    expect(vllm.bodies[1].messages.at(-1)).toEqual({
      role: 'user',
      content: [
        { type: 'text', text: 'Tool result:\n0 pages' },
        { type: 'image_url', image_url: { url: pixel } },
      ],
    });
    expect(sequences.map(({ certificate }) => certificate.reasons)).toEqual([['multimodal_inputs_absent']]);
  });
});
