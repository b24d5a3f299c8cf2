import fc from 'fast-check';
import { expect, test } from 'vitest';
import { reapVerdict } from '../../src/contracts/index.ts';
import { labelsOf, leftoverOf } from '../../src/sandbox/leftovers.ts';
import { ownerOf } from './fixture.ts';

const leftover = { owner: ownerOf({ pool: 'p', worker: 'w', run_id: 'r' }), expires_at: 1_000 };
const alive = { isDead: () => false };
const dead = { isDead: (worker: string) => worker === 'w' };

test('labels say whose a sandbox is, and are read back', () => {
  const text = fc.string({ maxLength: 30 });
  fc.assert(
    fc.property(
      text,
      text,
      text,
      text,
      fc.nat(),
      text,
      fc.nat(),
      (pool, worker, run_id, episode_id, attempt, nonce, at) => {
        const given = { owner: { pool, worker, run_id, episode_id, attempt, nonce }, expires_at: at };
        expect(leftoverOf(labelsOf(given))).toEqual(given);
      },
    ),
  );
});

test('what lacks any of our labels is not ours', () => {
  const labels = labelsOf(leftover);
  for (const missing of Object.keys(labels).filter((label) => !label.endsWith('attempt'))) {
    expect(
      leftoverOf(Object.fromEntries(Object.entries(labels).filter(([label]) => label !== missing))),
    ).toBeNull();
  }
  expect(leftoverOf({})).toBeNull();
  expect(leftoverOf({ ...labels, 'io.rollpool.expires': 'soon' })).toBeNull();
});

test.each([
  ['a living worker’s, in time', alive, 999, false, false],
  ['a living worker’s, past its time', alive, 1_000, false, true],
  ['a living worker’s, past its time and extended', alive, 1_000, true, false],
  ['a dead worker’s, in time', dead, 999, false, true],
  ['a dead worker’s, extended', dead, 1_000, true, true],
  ['any, when all are asked for', { ...alive, all: true }, 999, true, true],
] as const)('decides on %s', (_what, filter, now, extended, remove) => {
  expect(reapVerdict(leftover, filter, now, extended)).toMatchObject({ remove });
});

test('says nothing of other pools and runs', () => {
  expect(reapVerdict(leftover, { ...dead, pool: 'other', all: true }, 2_000, false)).toBe('not_asked');
  expect(reapVerdict(leftover, { ...dead, run_id: 'other', all: true }, 2_000, false)).toBe('not_asked');
});
