import { describe, expect, test } from 'vitest';
import type { Sequence } from '../../../src/contracts/index.ts';
import { cliPath } from '../../gateway/support/run-cli.ts';
import { expectTheSamples, playCli } from './cli-play.ts';
import { cliScripts } from './cli-scripts.ts';

function inWords({ role, certificate: { grade, notes, reasons } }: Sequence): string {
  return [role, grade, ...notes, ...reasons].join(' ');
}

// The CLI is an optional package: without it there is nothing real to drive.
describe.skipIf(cliPath() === null)('the real CLI, with a policy that gives', () => {
  const cases = cliScripts.flatMap((script) =>
    script.on.map((route) => ({ name: script.name, route, script })),
  );

  test.concurrent.each(cases)('$name ($route)', { timeout: 180_000 }, async ({ script, route }) => {
    const { ends, calls, sequences } = { ...script, ...script.but?.[route] };
    const played = await playCli(script, route);
    const { result, records } = played;

    const { code, num_turns, says, terminal_reason = 'completed', budget = null } = ends;
    expect({ code: played.code, num_turns: result['num_turns'], is_error: result['is_error'] }).toEqual({
      code,
      num_turns,
      is_error: code !== 0,
    });
    const words = (result['result'] ?? (result['errors'] as string[])[0]) as string;
    expect(words).toEqual(typeof says === 'string' ? says : (expect.stringMatching(says) as string));
    expect(result['terminal_reason']).toBe(terminal_reason);
    expect(played.stats).toMatchObject({ budget, failure: null, self_calls: 0 });
    // What cannot get better is not asked for again.
    expect(played.retries).toBe(0);
    const { refused, repeated } = played.asked;
    expect(repeated).toBe(ends.repeated ?? 0);
    expect(refused).toHaveLength(ends.refused ?? 0);
    for (const why of refused) expect(words).toBe(`API Error: 402 ${why}`);

    expect(
      records.map(({ role, fate, finish_reason }) =>
        fate === 'delivered' ? `${role} ${finish_reason}` : `${role} ${fate === 'failed' ? 'refused' : fate}`,
      ),
    ).toEqual(calls);
    expectTheSamples(played);
    expect(played.sequences.map(inWords)).toEqual(sequences);

    if (script.observed !== undefined) {
      const told = records.flatMap(({ new_messages }) =>
        new_messages.flatMap((message) => (message.role === 'tool' ? [message.content] : [])),
      );
      expect(told).toHaveLength(script.observed.length);
      for (const [at, words] of script.observed.entries()) {
        if (typeof words === 'string') expect(told[at]).toBe(words);
        else expect(told[at]).toMatch(words);
      }
    }
    expect(played.files).toEqual(script.expectFiles ?? {});
  });
});
