import { describe, expect, test } from 'vitest';
import type { CallRecord } from '../../../src/contracts/index.ts';
import type { EngineAnswer } from '../../../src/gateway/engines/engine.ts';
import { VllmEngine } from '../../../src/gateway/engines/vllm.ts';
import { until } from '../../support/wait.ts';
import { CliAgent, cliHeaders } from '../support/cli-agent.ts';
import { FakeVllm, gate, sample } from '../support/fake-vllm.ts';
import { messages, openGateway } from '../support/open-gateway.ts';
import { endOf, policyOf, told } from './scripted.ts';

const fates = (records: readonly CallRecord[]): string[] => records.map(({ fate }) => fate);

const work = [
  {
    repeat: 9,
    turns: [{ text: ['I look.', 'Let me see.'], tool_calls: [{ name: 'Bash', arguments: '{}' }] }],
  },
];

/** An engine that ends its first call only when told to, long after its signal: SGLang is asked to abort, and may take its time. */
class SlowToEnd extends VllmEngine {
  asked = 0;
  dropped = false;
  readonly #ending: Promise<void>;

  constructor(ending: Promise<void>) {
    super({ model: 'policy' });
    this.#ending = ending;
  }

  override async complete(...call: Parameters<VllmEngine['complete']>): Promise<EngineAnswer> {
    const [, , signal] = call;
    if (++this.asked > 1) return super.complete(...call);
    await new Promise((resolve) => signal.addEventListener('abort', resolve, { once: true }));
    this.dropped = true;
    await this.#ending;
    throw signal.reason;
  }
}

describe('a retry of the CLI', () => {
  test('again and again, in mid-episode: only the last answer counts, and the chain stays exact', async () => {
    await using policy = await policyOf(work);
    await using opened = await openGateway(policy.url);
    const agent = new CliAgent(opened.session);
    await agent.turn('Task');
    const before = agent.history;
    for (let lost = 0; lost < 2; lost++) await agent.send();
    expect(agent.history).toBe(before);
    await agent.turn();
    await agent.turn('More.');
    const { records, sequences, usage } = await endOf(opened.session, policy);
    expect(fates(records)).toEqual(['delivered', 'discarded', 'discarded', 'delivered', 'delivered']);
    expect(told(sequences)).toEqual(['main main: 0 3 4, exact']);
    const lost = policy.samples().slice(1, 3);
    expect(usage.discarded_tokens).toBe(lost.reduce((sum, { token_ids }) => sum + token_ids.length, 0));
    expect(opened.session.stats()).toMatchObject({ main_turns: 3, discarded_tokens: usage.discarded_tokens });
  });

  test('while its first connection still looks open: the first answer does not count, whenever it comes', async () => {
    const { play, open } = gate({ content: 'late', ids: [1, 2] });
    await using vllm = await FakeVllm.start(play, sample({ content: 'soon' }));
    await using opened = await openGateway(vllm.url);
    const first = new CliAgent(opened.session).tell('go');
    const late = first.send();
    await vllm.asked(1);
    expect((await new CliAgent(opened.session).turn('go')).blocks).toMatchObject([{ text: 'soon' }]);
    open();
    await late;
    expect(opened.session.stats()).toMatchObject({ main_turns: 1, discarded_tokens: 2 });
    expect(fates(await opened.session.finish())).toEqual(['discarded', 'delivered']);
  });

  test('is no retry when it is a side call: a search may be made twice', async () => {
    await using vllm = await FakeVllm.start();
    await using opened = await openGateway(vllm.url);
    await new CliAgent(opened.session).turn('go');
    for (let twice = 0; twice < 2; twice++) {
      await new CliAgent(opened.session, cliHeaders('auxiliary'), { system: 'You search.' }).turn('cats');
    }
    expect(fates(await opened.session.finish())).toEqual(['delivered', 'delivered', 'delivered']);
  });

  test('that comes while a call which nobody waited for is being ended is sampled, and not told of that end', async () => {
    let ended = (): void => {};
    const ending = new Promise<void>((resolve) => (ended = resolve));
    const engine = new SlowToEnd(ending);
    await using vllm = await FakeVllm.start();
    await using opened = await openGateway(vllm.url, { gateway: { engine, graceSeconds: 0 } });
    const leave = new AbortController();
    const left = new CliAgent(opened.session).tell('go').send(leave.signal);
    await until(() => engine.asked === 1, 'the engine is asked');
    leave.abort();
    await expect(left).rejects.toThrow();
    await until(() => engine.dropped, 'the call is being ended');
    const again = await new CliAgent(opened.session).turn('go');
    expect(again).toMatchObject({ status: 200, blocks: [{ text: 'hello' }] });
    ended();
    expect(fates(await opened.session.finish())).toEqual(['aborted', 'delivered']);
  });
});

describe('the replay key', () => {
  test('names the bearer: an answer that one episode lost is not given to another', async () => {
    await using vllm = await FakeVllm.start(sample({ content: 'x'.repeat(8 * 2 ** 20) }), sample());
    await using opened = await openGateway(vllm.url);
    const leave = new AbortController();
    // The headers are there, the body is not read.
    await messages(opened.session, 'hi', {}, { signal: leave.signal });
    leave.abort();
    await until(() => opened.session.stats().discarded_tokens > 0, 'the answer is lost');
    const other = await opened.open();
    expect(await (await messages(other, 'hi')).json()).toMatchObject({ content: [{ text: 'hello' }] });
    expect(fates(await other.finish())).toEqual(['delivered']);
    expect(fates(await opened.session.finish())).toEqual(['undelivered']);
  });

  test('names the agent: an answer that a subagent lost is not given to its twin, but to itself', async () => {
    const long = 'x'.repeat(8 * 2 ** 20);
    await using vllm = await FakeVllm.start(sample(), sample({ content: long }), sample());
    await using opened = await openGateway(vllm.url);
    const { session } = opened;
    await new CliAgent(session).turn('go');
    const [a, b] = ['a1', 'b2'].map((id) => cliHeaders('subagent', id));
    const leave = new AbortController();
    await messages(session, 'hi', {}, { headers: a!, signal: leave.signal });
    leave.abort();
    await until(() => session.stats().discarded_tokens > 0, 'the answer is lost');
    const ask = async (headers: Record<string, string>): Promise<string> => {
      const { content } = (await (await messages(session, 'hi', {}, { headers })).json()) as {
        content: { text: string }[];
      };
      return content[0]!.text;
    };
    expect(await ask(b!)).toBe('hello');
    expect(await ask(a!)).toBe(long);
    expect(vllm.bodies).toHaveLength(3);
    expect(fates(await session.finish())).toEqual(['delivered', 'delivered', 'delivered']);
  });
});
