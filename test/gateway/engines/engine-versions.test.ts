import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { CallRecord } from '../../../src/contracts/index.ts';
import { versionsOf } from '../../../src/gateway/calls/call-versions.ts';
import { engineVersions } from '../../../src/gateway/engines/engine-versions.ts';
import { staticPolicyState, type PolicyState } from '../../../src/gateway/index.ts';
import { startScriptedPolicy, type ScriptedPolicy } from '../../../src/policy/index.ts';
import { buildSequences, decodePayload, encodePayload } from '../../../src/trajectory/index.ts';
import { messages, openGateway } from '../support/open-gateway.ts';

const sglang = (weightVersion?: string): Promise<ScriptedPolicy> =>
  startScriptedPolicy({
    scripts: [{ match: 'hi', turns: [{ text: 'A first answer.' }, { text: 'A second answer.' }] }],
    model: 'policy',
    engine: 'sglang',
    seed: 7,
    ...(weightVersion === undefined ? {} : { weightVersion }),
  });

/** The records of an episode of two calls; `between` is done before the second. */
async function play(
  policy: ScriptedPolicy,
  between: () => void,
  policyState: PolicyState = staticPolicyState,
): Promise<readonly CallRecord[]> {
  await using opened = await openGateway(policy.url, {
    policy: { engine: 'sglang' },
    gateway: { policyState },
  });
  const history: unknown[] = [{ role: 'user', content: 'hi' }];
  for (const turn of [0, 1]) {
    if (turn === 1) between();
    const { content } = (await (await messages(opened.session, history)).json()) as { content: unknown };
    history.push({ role: 'assistant', content }, { role: 'user', content: 'go on' });
  }
  return await opened.session.finish();
}

describe('the version that an engine says', () => {
  test('is the call’s where nobody pushed one', async () => {
    await using policy = await sglang('7');
    const [first] = await play(policy, () => {});
    expect(first).toMatchObject({ version_start: 7, version_end: 7, notes: [] });
    expect(first).not.toHaveProperty('version_spans');
  });

  test('is none where the engine only has its default name for it', async () => {
    await using policy = await sglang();
    const [first] = await play(policy, () => {});
    expect(first).toMatchObject({ version_start: null, version_end: null });
    expect(first).not.toHaveProperty('version_spans');
  });

  test('that changes in mid-answer gives spans, the lowest as version_start, and a sequence to train on', async () => {
    await using policy = await sglang('9');
    // Back to older weights, as after a bad update: the lowest is not the first.
    const records = await play(policy, () => policy.fault({ kind: 'weights', version: '8', position: 3 }));
    const length = records[1]!.token_ids!.length;
    expect(records[1]).toMatchObject({
      version_start: 8,
      version_end: 9,
      version_spans: [
        { start: 0, end: 3, version: 9 },
        { start: 3, end: length, version: 8 },
      ],
    });
    const { sequences } = buildSequences(records);
    expect(sequences.map(({ certificate }) => certificate)).toEqual([
      { grade: 'exact', reasons: [], notes: ['mixed_version'] },
    ]);
    const [, turn] = sequences[0]!.turns;
    expect(turn).toMatchObject({
      version_start: 8,
      version_spans: [
        { start: turn!.start, end: turn!.start + 3, version: 9 },
        { start: turn!.start + 3, end: turn!.end, version: 8 },
      ],
    });
    expect(decodePayload(encodePayload({ sequences, trace: { calls: [] } })).sequences).toEqual(sequences);
  });

  test('by a name is kept as it is, and is no number to filter by', async () => {
    await using policy = await sglang('step-5');
    const [first, second] = await play(policy, () => policy.fault({ kind: 'weights', version: '6' }));
    expect(first).toMatchObject({ version_start: null, version_end: null });
    expect(first!.version_spans).toEqual([{ start: 0, end: first!.token_ids!.length, version: 'step-5' }]);
    expect(second!.version_start).toBeNull();
    expect(second!.version_spans!.map(({ version }) => version)).toEqual(['step-5', 6]);
    expect(buildSequences([first!, second!]).sequences[0]!.certificate.notes).toEqual(['mixed_version']);
  });

  test('does not go over what a trainer pushed, and says more beside it', async () => {
    await using policy = await sglang('70');
    const pushed: PolicyState = { ...staticPolicyState, source: 'pushed', version: () => 3 };
    const [first] = await play(policy, () => {}, pushed);
    expect(first).toMatchObject({ version_start: 3, version_end: 3 });
    expect(first!.version_spans).toEqual([{ start: 0, end: first!.token_ids!.length, version: 70 }]);
  });
});

describe('spans', () => {
  const spans = [
    { version: '1', start: 0, end: 2 },
    { version: '2', start: 2, end: 3 },
  ];
  const read = [
    { version: 1, start: 0, end: 2 },
    { version: 2, start: 2, end: 3 },
  ];

  test('are found beside the meta info, in the metadata or in the extension, for one choice or listed for each', () => {
    expect(engineVersions([{ weight_versions: spans, weight_version: '2' }], 3)).toEqual(read);
    expect(engineVersions([null, { weight_versions: [spans] }], 3)).toEqual(read);
    expect(engineVersions([{ weight_version: 'default' }, { weight_version: '5' }], 3)).toEqual([
      { version: 5, start: 0, end: 3 },
    ]);
  });

  test('that do not fit the tokens are none', () => {
    for (const sampled of [0, 1, 2])
      expect(engineVersions([{ weight_versions: spans }], sampled)).toEqual([]);
    const upset = [...spans].reverse();
    expect(engineVersions([{ weight_versions: upset, weight_version: '2' }], 3)).toEqual([
      { version: 2, start: 0, end: 3 },
    ]);
  });

  test('of any answer are in order, inside it and never empty, and give the lowest number', () => {
    const span = fc.record({
      start: fc.oneof(fc.integer({ min: -2, max: 9 }), fc.anything()),
      end: fc.oneof(fc.integer({ min: -2, max: 9 }), fc.anything()),
      version: fc.oneof(fc.constantFrom('1', '02', 'x', 'default', '', 3, -1, 1.5), fc.anything()),
    });
    const place = fc.record(
      {
        weight_version: fc.oneof(fc.string(), fc.anything()),
        weight_versions: fc.oneof(fc.array(span), fc.anything()),
      },
      { requiredKeys: [] },
    );
    fc.assert(
      fc.property(fc.array(fc.option(place)), fc.nat(9), (places, sampled) => {
        const found = engineVersions(places, sampled);
        let at = 0;
        for (const { start, end } of found) {
          expect(start).toBeGreaterThanOrEqual(at);
          expect(end).toBeGreaterThan(start);
          at = end;
        }
        expect(at).toBeLessThanOrEqual(sampled);
        const { version_start: lowest } = versionsOf(null, null, found);
        for (const { version } of found) {
          if (lowest !== null) expect(version).toBeGreaterThanOrEqual(lowest);
        }
      }),
    );
  });
});
