import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import type { CallRecord } from '../../src/contracts/index.ts';
import { decodeTokens, startScriptedPolicy, type ScriptedPolicy } from '../../src/policy/index.ts';
import { buildSequences } from '../../src/trajectory/index.ts';
import { until } from '../support/wait.ts';
import { FakeVllm, hang, sample } from './support/fake-vllm.ts';
import { openGateway } from './support/open-gateway.ts';
import { cliPath, runCli } from './support/run-cli.ts';

const grades = (records: readonly CallRecord[]): string[] =>
  buildSequences(records).sequences.map(({ certificate }) => certificate.grade);

/** What the policy logged that it sampled, call by call. */
function expectTheSamplesOf(policy: ScriptedPolicy, records: readonly CallRecord[]): void {
  expect(
    records.map(({ prompt_token_ids, token_ids, logprobs }) => ({
      prompt: Array.from(prompt_token_ids!),
      ids: Array.from(token_ids!),
      logprobs: Array.from(logprobs!),
    })),
  ).toEqual(
    policy.samples().map(({ prompt_token_ids, token_ids, logprobs }) => ({
      prompt: prompt_token_ids,
      ids: token_ids,
      logprobs,
    })),
  );
}

// The CLI is an optional package: without it there is nothing real to drive.
describe.skipIf(cliPath() === null)('the real CLI over its Unix socket', () => {
  test('plays Bash, Edit and an end; histories upstream have the argument strings that were sampled', async () => {
    const write = '{"command" : "printf \'one  \\n\' > a.txt && cat a.txt",  "description":"\u0057rites"}';
    const read = '{"file_path":"{{workdir}}/a.txt"}';
    // The CLI puts a default in front, sorts the keys and strips the trailing spaces.
    const edit = '{"new_string":"two   ", "file_path": "{{workdir}}/a.txt","old_string":"one"}';
    await using policy = await startScriptedPolicy({
      scripts: [
        {
          match: 'write',
          turns: [
            { text: 'First.', tool_calls: [{ name: 'Bash', arguments: write }] },
            { tool_calls: [{ name: 'Read', arguments: read }] },
            { tool_calls: [{ name: 'Edit', arguments: edit }] },
            { text: 'All done. ✓ 😀' },
          ],
        },
      ],
      model: 'policy',
      template: 'plain',
    });
    await using opened = await openGateway(policy.url, { unixSocket: true });
    await using run = await runCli(opened.session, 'Please write a file.');
    const { code, events, stderr } = await run.ended;
    expect(code, stderr).toBe(0);
    expect(events.at(-1)).toMatchObject({ is_error: false, result: 'All done. ✓ 😀', num_turns: 4 });
    const records = await opened.session.finish();
    expect(records.map(({ role, fate, notes }) => [role, fate, ...notes])).toEqual(
      Array(4).fill(['main', 'delivered']),
    );
    expectTheSamplesOf(policy, records);
    expect(await readFile(join(run.workdir, 'a.txt'), 'utf8')).toMatch(/^two/);
    const given = records.flatMap(({ answer }) =>
      answer?.role === 'assistant' ? (answer.tool_calls ?? []).map((call) => call.function.arguments) : [],
    );
    expect(given).toEqual([write, read, edit].map((raw) => raw.replace('{{workdir}}', run.workdir)));
    const lastPrompt = decodeTokens(Array.from(records.at(-1)!.prompt_token_ids!));
    for (const raw of given) expect(lastPrompt).toContain(raw);
    expect(grades(records)).toEqual(['exact']);
  });

  const bash = sample({ tools: [{ name: 'Bash', arguments: '{"command":"true"}' }] });
  const inPlace = { systemInPlace: true };

  test('SIGKILLed in the middle of a call: the policy is told to stop, the call is recorded as aborted', async () => {
    await using vllm = await FakeVllm.start(bash, hang);
    await using opened = await openGateway(vllm.url, { unixSocket: true, policy: inPlace });
    await using run = await runCli(opened.session, 'go');
    await vllm.asked(2);
    process.kill(-run.child.pid!, 'SIGKILL');
    await run.ended;
    await until(() => vllm.aborted === 1, 'the policy is told');
    expect((await opened.session.finish()).map(({ fate }) => fate)).toEqual(['delivered', 'aborted']);
  });

  test('a call that the agent makes with curl is served and kept apart', async () => {
    const call =
      'curl -s --unix-socket "$ANTHROPIC_UNIX_SOCKET" -H "authorization: Bearer $ANTHROPIC_AUTH_TOKEN" ' +
      '-d \'{"model":"x","max_tokens":5,"messages":[{"role":"user","content":"hi"}]}\' http://localhost/v1/messages';
    await using vllm = await FakeVllm.start(
      sample({ tools: [{ name: 'Bash', arguments: JSON.stringify({ command: call }) }] }),
      sample({ content: 'for curl' }),
      sample({ content: 'the end' }),
    );
    await using opened = await openGateway(vllm.url, { unixSocket: true, policy: inPlace });
    await using run = await runCli(opened.session, 'go');
    expect((await run.ended).events.at(-1)).toMatchObject({ result: 'the end' });
    expect(opened.session.stats()).toMatchObject({ self_calls: 1, main_turns: 2 });
    const records = await opened.session.finish();
    expect(records.map(({ role, notes }) => [role, ...notes])).toEqual([
      ['main'],
      ['auxiliary', 'foreign_client'],
      ['main'],
    ]);
  });
});
