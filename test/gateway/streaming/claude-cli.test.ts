import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { startScriptedPolicy } from '../../../src/policy/index.ts';
import { buildSequences } from '../../../src/trajectory/index.ts';
import { openGateway } from '../support/open-gateway.ts';
import { cliPath, runCli } from '../support/run-cli.ts';

// The CLI is an optional package: without it there is nothing real to drive.
describe.skipIf(cliPath() === null)('the real CLI, its answers passed on while they come', () => {
  test('plays thinking, parallel calls, an edit, bad JSON and an end, and every token is true', async () => {
    const edit = '{"new_string":"two","file_path": "{{workdir}}/a.txt","old_string":"one"}';
    await using policy = await startScriptedPolicy({
      scripts: [
        {
          match: 'write',
          turns: [
            {
              thinking: 'First a file.',
              text: 'I write it.',
              tool_calls: [
                { name: 'Bash', arguments: { command: "printf 'one\\n' > a.txt" } },
                { name: 'Bash', arguments: { command: 'echo second' } },
              ],
            },
            { tool_calls: [{ name: 'Read', arguments: '{"file_path":"{{workdir}}/a.txt"}' }] },
            { tool_calls: [{ name: 'Edit', arguments: edit }] },
            { tool_calls: [{ name: 'Bash', arguments: '{"command": "echo' }] },
            { text: 'All done. ✓ 😀' },
          ],
        },
      ],
      model: 'policy',
      template: 'plain',
      tokenMs: 1,
    });
    await using opened = await openGateway(policy.url, { unixSocket: true, policy: { streaming: true } });
    await using run = await runCli(opened.session, 'Please write a file.');
    const { code, events, stderr } = await run.ended;
    expect(code, stderr).toBe(0);
    expect(events.at(-1)).toMatchObject({ is_error: false, result: 'All done. ✓ 😀', num_turns: 5 + 1 });
    expect(await readFile(join(run.workdir, 'a.txt'), 'utf8')).toMatch(/^two/);
    const records = await opened.session.finish();
    expect(records.map(({ role, fate, reasons }) => [role, fate, ...reasons])).toEqual(
      Array(5).fill(['main', 'delivered']),
    );
    expect(records.map(({ token_ids }) => Array.from(token_ids!))).toEqual(
      policy.samples().map(({ token_ids }) => token_ids),
    );
    // The bad call is replaced upstream, which breaks the prefix; nothing else does.
    const { sequences } = buildSequences(records);
    expect(sequences.map(({ turns }) => turns.length)).toEqual([4, 1]);
    expect(sequences.flatMap(({ certificate }) => certificate.reasons)).toEqual([]);
  });
});
