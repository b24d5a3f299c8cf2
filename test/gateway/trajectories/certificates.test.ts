import { describe, expect, test } from 'vitest';
import { untrainableReasonSchema } from '../../../src/contracts/index.ts';
import type { FaultInput } from '../../../src/policy/index.ts';
import { CliAgent } from '../support/cli-agent.ts';
import { openGateway } from '../support/open-gateway.ts';
import { endOf, policyOf, told } from './scripted.ts';

const work = [{ repeat: 9, turns: [{ text: 'I look.', tool_calls: [{ name: 'Bash', arguments: '{}' }] }] }];

const modes = [
  ['vLLM', 'vllm', false],
  ['vLLM, streamed', 'vllm', true],
  ['SGLang', 'sglang', false],
] as const;

describe.each(modes)('certificates of what %s says', (_name, engine, streaming) => {
  test('list every reason at once, in the order of the closed list', async () => {
    await using policy = await policyOf(work, { engine });
    await using opened = await openGateway(policy.url, {
      policy: { engine, streaming, logprobsMode: 'raw' },
      sampling: { temperature: 0.5, top_p: 0.9 },
    });
    const faults: FaultInput[] = [
      { kind: 'usage', by: 2 },
      { kind: 'logprob', value: 'nan', position: 1 },
      { kind: 'short_ids' },
    ];
    policy.fault(faults);
    await new CliAgent(opened.session).turn('Task');
    const { sequences } = await endOf(opened.session, policy);
    const [{ grade, reasons }] = sequences.map(({ certificate }) => certificate) as [
      (typeof sequences)[0]['certificate'],
    ];
    expect(grade).toBe('untrainable');
    expect(reasons).toEqual([
      'length_mismatch',
      'bad_logprob',
      'usage_mismatch',
      'raw_logprobs_with_temperature',
      'truncated_support',
    ]);
    expect(reasons).toEqual(untrainableReasonSchema.options.filter((reason) => reasons.includes(reason)));
  });

  test('join the reasons of all calls of a chain, each once', async () => {
    await using policy = await policyOf(work, { engine });
    await using opened = await openGateway(policy.url, { policy: { engine, streaming } });
    const agent = new CliAgent(opened.session).tell('Task');
    const faults: readonly (readonly FaultInput[])[] = [
      [],
      [{ kind: 'usage' }, { kind: 'logprob', value: 'default', position: -1 }],
      [{ kind: 'no_logprobs' }],
      [],
    ];
    for (const each of faults) {
      policy.fault(each);
      await agent.turn();
    }
    const { sequences } = await endOf(opened.session, policy);
    expect(told(sequences)).toEqual(['main main: 0 1 2 3, untrainable']);
    expect(sequences[0]!.certificate.reasons).toEqual(['bad_logprob', 'usage_mismatch']);
  });

  test('are no ground to go on from: a prompt of ids never holds an answer whose ids are short', async () => {
    await using policy = await policyOf(work, { engine });
    await using opened = await openGateway(policy.url, {
      policy: { engine, streaming, callFormat: 'hermes' },
    });
    const agent = new CliAgent(opened.session).tell('Task');
    policy.fault({ kind: 'short_ids' });
    await agent.turn();
    await agent.turn();
    const [first, second] = policy.samples();
    const said = [...first!.prompt_token_ids, ...first!.token_ids];
    expect(second!.prompt_token_ids.slice(0, said.length)).toEqual(said);
    const { sequences } = await endOf(opened.session, policy);
    expect(told(sequences)).toEqual(['main main: 0 1, untrainable']);
  });

  test('say of one agent nothing that is true of another', async () => {
    await using policy = await policyOf(work, { engine });
    await using opened = await openGateway(policy.url, { policy: { engine, streaming } });
    const main = new CliAgent(opened.session).tell('Task');
    await main.turn();
    policy.fault({ kind: 'no_prompt_ids' });
    await new CliAgent(opened.session, { ...mainHeaders, 'x-claude-code-agent-id': 'a1' }).turn('Task');
    await main.turn();
    const { sequences } = await endOf(opened.session, policy);
    expect(told(sequences)).toEqual(['main main: 0 2, exact', 'subagent a1: 1, untrainable']);
  });
});

/** An agent that names itself and does not say what it is: one with an id is a subagent (facts: claude-code 1). */
const mainHeaders = {
  'user-agent': 'claude-cli/2.1.332 (external, sdk-cli)',
  'x-claude-code-session-id': '7a1f',
};
