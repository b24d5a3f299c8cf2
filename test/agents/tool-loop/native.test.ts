import { describe, expect, it } from 'vitest';
import { FakeVllm, sample } from '../../gateway/support/fake-vllm.ts';
import { Notebook, pixel } from './notebook.ts';
import { expectExact, openStage, scripted, told } from './stage.ts';

const call = (name: string, args: Record<string, unknown> | string = {}): unknown => ({
  name,
  arguments: args,
});
const write = (page: string, text: string): unknown => call('write', { page, text });

describe('the tool loop with native tool calls', () => {
  it('calls tools until the policy answers without one, and every sampled token stands in one exact sequence', async () => {
    await using stage = await scripted([
      { thinking: 'One page first.', text: 'Writing.', tool_calls: [write('a', 'é "quoted" \n')] },
      { tool_calls: [call('read', { page: 'a' })] },
      { text: 'It is written.' },
    ]);
    const { outcome, environment, sequences, calls, stats } = await stage.play();
    expect(outcome).toEqual({
      ending: 'agent_done',
      detail: '',
      exit_code: null,
      final_answer: null,
      metrics: {
        tool_calls: 2,
        tool_errors: 0,
        invalid_calls: 0,
        tool_s: expect.any(Number) as number,
        submitted: false,
      },
    });
    expect([...environment.pages]).toEqual([['a', 'é "quoted" \n']]);
    expect(told(calls)).toMatchObject([
      { role: 'tool', content: 'wrote a' },
      { role: 'tool', content: 'é "quoted" \n' },
    ]);
    expect(stats.main_turns).toBe(3);
    expectExact(stage.policy, sequences);
  });

  it('makes parallel calls in order, one after another, and pairs each result with its call', async () => {
    await using stage = await scripted([
      {
        tool_calls: [
          write('a', '1'),
          call('read', { page: 'a' }),
          write('a', '2'),
          call('read', { page: 'a' }),
        ],
      },
      { text: 'Done.' },
    ]);
    const { environment, calls, sequences } = await stage.play();
    expect(environment.called).toEqual(['write', 'read', 'write', 'read']);
    expect(environment.mostAtOnce).toBe(1);
    const ids =
      calls[0]!.answer?.role === 'assistant' ? calls[0]!.answer.tool_calls!.map(({ id }) => id) : [];
    expect(told(calls)).toEqual([
      { role: 'tool', tool_call_id: ids[0], content: 'wrote a' },
      { role: 'tool', tool_call_id: ids[1], content: '1' },
      { role: 'tool', tool_call_id: ids[2], content: 'wrote a' },
      { role: 'tool', tool_call_id: ids[3], content: '2' },
    ]);
    expectExact(stage.policy, sequences);
  });

  it('stays exact over a long episode', async () => {
    await using stage = await scripted([
      {
        repeat: 40,
        turns: [{ text: ['Again.', 'Once more.'], tool_calls: [write('p{{turn}}', 'text {{turn}}')] }],
      },
      { text: 'Done.' },
    ]);
    const { environment, sequences } = await stage.play({ limits: { max_turns: 60 } });
    expect(environment.pages.size).toBe(40);
    expect(sequences[0]!.turns).toHaveLength(41);
    expectExact(stage.policy, sequences);
  });

  it('stays exact under a template that tokenises history anew, where text says all there is, and is forked otherwise', async () => {
    await using plainly = await scripted(
      [{ text: 'Writing.', tool_calls: [write('a', 'b')] }, { text: 'Done.' }],
      { template: 'hostile', splitRate: 0 },
    );
    expectExact(plainly.policy, (await plainly.play()).sequences);
    await using oddly = await scripted(
      [{ tool_calls: [call('write', '{"page":"a",  "text":"b"}')] }, { text: 'Done.' }],
      { template: 'hostile', splitRate: 0 },
    );
    const { sequences } = await oddly.play();
    expect(sequences.map(({ certificate }) => certificate.grade)).toEqual(['forked', 'forked']);
  });

  it('tells the policy what was wrong with a call, and goes on', async () => {
    await using stage = await scripted([
      { tool_calls: [call('erase'), call('write', '[1]'), call('write', '{"page": '), write('a', 'b')] },
      { text: 'Done.' },
    ]);
    const { outcome, environment, calls } = await stage.play();
    expect(told(calls)).toMatchObject([
      {
        role: 'tool',
        content: 'Error: there is no tool "erase"; the tools are: write, read, photograph, wait',
      },
      {
        role: 'tool',
        content: 'Error: the call of write could not be read: its arguments are not a JSON object',
      },
      {
        role: 'tool',
        content: expect.stringMatching(
          /^Error: the call of write could not be read: .* not valid JSON/,
        ) as string,
      },
      { role: 'tool', content: 'wrote a' },
    ]);
    expect(environment.called).toEqual(['write']);
    expect(outcome).toMatchObject({ metrics: { tool_calls: 1, tool_errors: 0, invalid_calls: 3 } });
  });

  it('tells the policy that a tool failed, and goes on', async () => {
    await using stage = await scripted([
      { tool_calls: [call('read', { page: 'none' })] },
      { text: 'There is none.' },
    ]);
    const { outcome, calls, sequences } = await stage.play();
    expect(told(calls)).toMatchObject([{ role: 'tool', content: 'Error: no page none' }]);
    expect(outcome).toMatchObject({ ending: 'agent_done', metrics: { tool_calls: 1, tool_errors: 1 } });
    expectExact(stage.policy, sequences);
  });

  it('takes no arguments for an empty object', async () => {
    await using stage = await scripted([
      { tool_calls: [call('rest', ''), call('rest', 'null')] },
      { text: 'Done.' },
    ]);
    const rest = { name: 'rest', parameters: { type: 'object', properties: {} } };
    const { environment, outcome } = await stage.play({
      environment: new Notebook([{ type: 'function', function: rest }]),
    });
    expect(environment.called).toEqual(['rest', 'rest']);
    expect(outcome.metrics).toMatchObject({ invalid_calls: 0 });
  });

  it('does not take a call that the parser left in the text for the end', async () => {
    await using stage = await scripted([
      { raw: '<tool_call>write\n{"page": "a"' },
      { tool_calls: [write('a', 'b')] },
      { text: 'Done.' },
    ]);
    const { outcome, environment, calls, sequences } = await stage.play();
    expect(told(calls)[0]).toEqual({
      role: 'user',
      content: 'Error: the tool call could not be read: it is not written as it should be',
    });
    expect(environment.pages.get('a')).toBe('b');
    expect(outcome.metrics).toMatchObject({ invalid_calls: 1 });
    expectExact(stage.policy, sequences);
  });

  it('lets the policy go on after a message that was cut off', async () => {
    await using stage = await scripted([
      { text: 'word '.repeat(60) },
      { tool_calls: [write('a', 'b')] },
      { text: 'Done.' },
    ]);
    const { outcome, environment, calls, sequences } = await stage.play({
      limits: { max_output_tokens: 40 },
    });
    expect(outcome.ending).toBe('agent_done');
    expect(told(calls)[0]).toMatchObject({
      role: 'user',
      content: expect.stringContaining('cut off') as string,
    });
    expect(environment.pages.get('a')).toBe('b');
    expectExact(stage.policy, sequences);
    expect(sequences[0]!.certificate.notes).toEqual(['truncated_turn']);
  });

  it('shows images in a user message behind the results, and the sequence says that it cannot be trained on', async () => {
    await using vllm = await FakeVllm.start(
      sample({
        prompt: [1, 2],
        ids: [3, 4],
        tools: [
          { name: 'photograph', arguments: '{}' },
          { name: 'write', arguments: '{"page":"a","text":"b"}' },
          { name: 'photograph', arguments: '{}' },
        ],
      }),
      sample({ prompt: [1, 2, 3, 4, 5], ids: [6], content: 'Nice.' }),
    );
    await using stage = await openStage(vllm.url, 'policy');
    const { outcome, sequences } = await stage.play();
    expect(outcome.ending).toBe('agent_done');
    expect(vllm.bodies[1].messages.slice(3)).toMatchObject([
      { role: 'tool', content: '0 pages' },
      { role: 'tool', content: 'wrote a' },
      { role: 'tool', content: '1 pages' },
      {
        role: 'user',
        content: [
          { type: 'text', text: 'Image of the result of call 1 (photograph):' },
          { type: 'image_url', image_url: { url: pixel } },
          { type: 'text', text: 'Image of the result of call 3 (photograph):' },
          { type: 'image_url', image_url: { url: pixel } },
        ],
      },
    ]);
    expect(sequences).toHaveLength(1);
    expect([...sequences[0]!.token_ids]).toEqual([1, 2, 3, 4, 5, 6]);
    expect([...sequences[0]!.loss_mask]).toEqual([0, 0, 1, 1, 0, 1]);
    expect(sequences[0]!.certificate).toEqual({
      grade: 'untrainable',
      reasons: ['multimodal_inputs_absent'],
      notes: [],
    });
  });

  it('gives every call tool_seconds, and the listing no more than half of the agent’s time', async () => {
    await using stage = await scripted([{ tool_calls: [write('a', 'b')] }, { text: 'Done.' }]);
    const { environment } = await stage.play({
      limits: { tool_seconds: 7, agent_seconds: 100, boot_seconds: 80 },
    });
    expect(environment.timeouts).toEqual([50_000, 7_000]);
  });
});
