import { describe, expect, test } from 'vitest';
import { startScriptedPolicy, type ScriptedPolicy } from '../../../src/policy/index.ts';
import { buildSequences } from '../../../src/trajectory/index.ts';
import { FakeVllm, hang, sample } from '../support/fake-vllm.ts';
import { messages, openGateway } from '../support/open-gateway.ts';

const scripted = (): Promise<ScriptedPolicy> =>
  startScriptedPolicy({
    scripts: [{ match: 'hi', turns: [{ repeat: 10, turns: [{ text: 'An answer, in many words.' }] }] }],
    model: 'policy',
    // No replica would tokenise another's words as they were sampled.
    splitRate: 0.5,
  });

const stopped = new WeakSet<ScriptedPolicy>();

/** Once is enough, however often it is asked for. */
async function stop(policy: ScriptedPolicy): Promise<void> {
  if (stopped.has(policy)) return;
  stopped.add(policy);
  await policy[Symbol.asyncDispose]();
}

describe('an episode whose replica died', () => {
  test('goes on at another from its recorded ids: one exact sequence, with the note that it moved', async () => {
    const first = await scripted();
    await using _stops = { [Symbol.asyncDispose]: () => stop(first) };
    await using second = await scripted();
    await using opened = await openGateway([first.url, second.url], { policy: { callFormat: 'hermes' } });
    const history: unknown[] = [];
    for (let turn = 0; turn < 4; turn++) {
      if (turn === 2) await stop(first);
      history.push({ role: 'user', content: 'hi' });
      const response = await messages(opened.session, [...history]);
      history.push({ role: 'assistant', content: ((await response.json()) as { content: unknown }).content });
    }
    const records = await opened.session.finish();
    expect(records.map(({ replica }) => replica)).toEqual([first.url, first.url, second.url, second.url]);
    const { sequences } = buildSequences(records);
    expect(sequences.map(({ certificate }) => certificate)).toEqual([
      { grade: 'exact', reasons: [], notes: ['replica_moved'] },
    ]);
    const sampled = [...first.samples(), ...second.samples()].map(({ token_ids }) => token_ids);
    expect(
      sequences[0]!.turns.map(({ start, end }) => [...sequences[0]!.token_ids.subarray(start, end)]),
    ).toEqual(sampled);
  });
});

describe('a slow call', () => {
  test('on one replica delays no other call on the same one', async () => {
    let calls = 0;
    await using vllm = await FakeVllm.start((...exchange) =>
      calls++ === 0 ? hang(...exchange) : sample()(...exchange),
    );
    await using opened = await openGateway(vllm.url);
    const slow = messages(opened.session, 'hi');
    await vllm.asked(1);
    const sessions = await Promise.all(Array.from({ length: 20 }, () => opened.open()));
    const answers = await Promise.all(sessions.map((session) => messages(session, 'hi')));
    expect(answers.map(({ status }) => status)).toEqual(Array(20).fill(200));
    await opened.session.finish();
    expect((await slow).status).toBe(403);
  });
});
