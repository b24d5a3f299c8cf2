import { describe, expect, it } from 'vitest';
import type { ToolMode } from '../../../src/agents/index.ts';
import { EpisodeError } from '../../../src/contracts/index.ts';
import { until } from '../../support/wait.ts';
import { FakeVllm, sample } from '../../gateway/support/fake-vllm.ts';
import { Notebook } from './notebook.ts';
import { expectExact, openStage, scripted, type Turns } from './stage.ts';

const call = (name: string, args: Record<string, unknown> = {}): unknown => ({ name, arguments: args });
const write = call('write', { page: 'a', text: 'b' });
const wait = { tool_calls: [call('wait')] };
const writeAsText =
  'Again. <tool_call>{"name": "write", "arguments": {"page": "a", "text": "b"}}</tool_call>';
const forever = [{ repeat: 1000, turns: [{ tool_calls: [write] }] }];

const modes: readonly (readonly [ToolMode, Turns])[] = [
  ['native', forever],
  ['text', [{ repeat: 1000, turns: [{ text: writeAsText }] }]],
];

describe('the tool loop ends', () => {
  it.each(modes)('at the turn budget, the calls of the last turn made (%s)', async (toolMode, turns) => {
    await using stage = await scripted(turns);
    const { outcome, environment, sequences, stats } = await stage.play({
      toolMode,
      limits: { max_turns: 3 },
    });
    expect(outcome).toMatchObject({ ending: 'max_turns', final_answer: null });
    expect(environment.called).toHaveLength(3);
    expect(stats.budget).toBe('max_turns');
    expectExact(stage.policy, sequences);
  });

  it.each(modes)('at the budget of sampled tokens (%s)', async (toolMode, turns) => {
    await using stage = await scripted(turns);
    const { outcome, sequences, stats } = await stage.play({ toolMode, limits: { max_sampled_tokens: 60 } });
    expect(outcome.ending).toBe('max_tokens');
    expect(stats).toMatchObject({ budget: 'max_tokens', completion_tokens: 60 });
    expectExact(stage.policy, sequences);
  });

  it.each(modes)('when the context is full (%s)', async (toolMode, turns) => {
    await using stage = await scripted(turns);
    const { outcome, sequences, stats } = await stage.play({ toolMode, limits: { context_tokens: 900 } });
    expect(outcome.ending).toBe('context_overflow');
    expect(stats.budget).toBe('context_overflow');
    expectExact(stage.policy, sequences);
  });

  it('at the turn budget when the policy makes the same invalid call again and again', async () => {
    await using stage = await scripted([{ repeat: 1000, turns: [{ tool_calls: [call('erase')] }] }]);
    const { outcome, environment } = await stage.play({ limits: { max_turns: 5 } });
    expect(outcome).toMatchObject({ ending: 'max_turns', metrics: { tool_calls: 0, invalid_calls: 5 } });
    expect(environment.called).toEqual([]);
  });

  it('at the time budget, which the gateway’s account makes a timeout', async () => {
    await using stage = await scripted([wait, { text: 'Done.' }]);
    const episode = await stage.start({ limits: { agent_seconds: 0.2 } });
    await until(() => episode.environment.waiting > 0, 'the tool is under way');
    const startedAt = performance.now();
    await until(() => performance.now() - startedAt > 200, 'the time is used up');
    episode.environment.wake();
    expect((await episode.outcome).ending).toBe('agent_error');
    expect((await episode.finish()).stats.budget).toBe('timeout');
  });

  it('when the policy refuses', async () => {
    await using vllm = await FakeVllm.start(sample({ content: 'No.', finish: 'content_filter' }));
    await using stage = await openStage(vllm.url, 'policy');
    expect((await stage.play()).outcome).toMatchObject({ ending: 'refusal', final_answer: null });
  });

  it('with the answer that the policy submits, calls before it made and calls after it not', async () => {
    await using stage = await scripted([
      {
        tool_calls: [call('submit_final_answer', { answer: 42 }), call('write', { page: 'a', text: '1' })],
      },
      {
        tool_calls: [
          call('write', { page: 'b', text: '2' }),
          call('submit_final_answer', { answer: 'the answer' }),
          call('write', { page: 'c', text: '3' }),
        ],
      },
      { text: 'never said' },
    ]);
    const { outcome, environment, calls, sequences } = await stage.play({
      prompt: 'Play the script. When done call `submit_final_answer`.',
    });
    expect(calls[1]!.new_messages).toMatchObject([
      { role: 'tool', content: 'Error: nothing was submitted: its argument "answer" must be a string' },
      { role: 'tool', content: 'wrote a' },
    ]);
    expect([...environment.pages.keys()]).toEqual(['a', 'b']);
    expect(outcome).toMatchObject({
      ending: 'agent_done',
      final_answer: 'the answer',
      metrics: { submitted: true, tool_calls: 2, invalid_calls: 1 },
    });
    expectExact(stage.policy, sequences);
  });

  it('with no answer where the prompt asks for none or the environment takes it itself', async () => {
    const submit = call('submit_final_answer', { answer: 'x' });
    await using stage = await scripted([{ tool_calls: [submit] }, { text: 'Done.' }]);
    const unasked = await stage.play();
    expect(unasked.outcome).toMatchObject({ final_answer: null, metrics: { invalid_calls: 1 } });
    const own = { name: 'submit_final_answer', parameters: { type: 'object' } };
    const { environment, outcome } = await stage.play({
      prompt: 'Play the script. End with submit_final_answer.',
      environment: new Notebook([{ type: 'function', function: own }]),
    });
    expect(environment.called).toEqual(['submit_final_answer']);
    expect(outcome).toMatchObject({ ending: 'agent_done', final_answer: null });
  });
});

describe('the tool loop rejects', () => {
  const reason = new Error('the deadline');

  it('at once with the signal’s reason while a tool is under way, whatever the tool does', async () => {
    await using stage = await scripted([wait, { text: 'Done.' }]);
    for (const environment of [new Notebook(), new Deaf()]) {
      const controller = new AbortController();
      const episode = await stage.start({ environment, signal: controller.signal });
      await until(() => environment.called.length > 0, 'the tool is under way');
      controller.abort(reason);
      await expect(episode.outcome).rejects.toBe(reason);
      environment.wake();
      const { calls, sequences } = await episode.finish();
      expect(calls.map(({ fate }) => fate)).toEqual(['delivered']);
      expect(sequences.map(({ certificate }) => certificate.grade)).toEqual(['exact']);
    }
  });

  it('at once with the signal’s reason while the policy samples, and that call is in no sequence', async () => {
    await using stage = await scripted([{ tool_calls: [write] }, { text: 'Done.' }]);
    stage.policy.fault({ kind: 'hang', skip: 1 });
    const controller = new AbortController();
    const episode = await stage.start({ signal: controller.signal });
    await until(() => episode.session.stats().calls === 2, 'the second call is under way');
    controller.abort(reason);
    await expect(episode.outcome).rejects.toBe(reason);
    const { calls, sequences } = await episode.finish();
    expect(calls.map(({ fate }) => fate)).toEqual(['delivered', 'aborted']);
    expect(sequences).toHaveLength(1);
    expect(sequences[0]!.certificate.grade).toBe('exact');
  });

  it('before it begins when the signal has aborted', async () => {
    await using stage = await scripted(forever);
    const episode = await stage.start({ signal: AbortSignal.abort(reason) });
    await expect(episode.outcome).rejects.toBe(reason);
    expect(episode.environment.timeouts).toEqual([]);
  });

  it('when the environment is gone: infra', async () => {
    await using stage = await scripted([{ tool_calls: [write] }, wait, { tool_calls: [write] }]);
    const episode = await stage.start();
    await until(() => episode.environment.waiting > 0, 'the tool is under way');
    episode.environment.gone = true;
    episode.environment.wake();
    await expect(episode.outcome).rejects.toMatchObject({
      failure: { class: 'infra', code: 'environment_gone', retryable: true },
    });
  });

  it('without an environment, or with one whose tools never came: infra', async () => {
    await using stage = await scripted(forever);
    const none = await stage.start({ environment: null });
    await expect(none.outcome).rejects.toMatchObject({ failure: { class: 'infra', code: 'internal_error' } });
    const bare = await stage.start({ environment: new Toolless() });
    await expect(bare.outcome).rejects.toMatchObject({ failure: { class: 'infra', code: 'no_tools' } });
  });

  it('when the policy failed past its deadlines: infra', async () => {
    await using stage = await scripted(forever);
    stage.policy.fault({ kind: 'status', status: 503, times: 1000 });
    const episode = await stage.start({ limits: { turn_seconds: 0.3 } });
    await expect(episode.outcome).rejects.toMatchObject({
      failure: { class: 'infra', code: 'policy_turn_deadline' },
    });
  });

  it('when the engine takes no images, or refuses before the policy had a say: infra, not tried again', async () => {
    const infra = { class: 'infra', code: 'policy_rejected', retryable: false };
    await using stage = await scripted([{ tool_calls: [call('photograph')] }, { text: 'Nice.' }]);
    await expect((await stage.start()).outcome).rejects.toMatchObject({ failure: infra });
    stage.policy.fault({ kind: 'status', status: 400, message: '"auto" tool choice requires a parser' });
    await expect((await stage.start()).outcome).rejects.toMatchObject({ failure: infra });
  });

  it('not when the engine refuses what the policy made of the conversation', async () => {
    await using stage = await scripted(forever);
    stage.policy.fault({ kind: 'status', status: 400, message: 'cannot render it', skip: 1 });
    expect((await stage.play()).outcome).toMatchObject({
      ending: 'agent_error',
      detail: expect.stringContaining('cannot render it') as string,
    });
  });
});

/** Its tools do not listen to the signal. */
class Deaf extends Notebook {
  override callTool(
    ...[name, args, options]: Parameters<Notebook['callTool']>
  ): ReturnType<Notebook['callTool']> {
    return super.callTool(name, args, { ...options, signal: new AbortController().signal });
  }
}

class Toolless extends Notebook {
  override tools(): Promise<never> {
    const message = 'the environment lists no tools';
    return Promise.reject(new EpisodeError({ class: 'infra', phase: 'agent', code: 'no_tools', message }));
  }
}
