import { crc32 } from 'node:zlib';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { Sequence } from '../../src/contracts/index.ts';
import {
  buildSequences,
  buildTrace,
  decodePayload,
  decodeTrace,
  encodePayload,
  PayloadError,
  type Payload,
} from '../../src/trajectory/index.ts';
import { call } from './call-records.ts';
import { histories } from './histories.ts';

const float32 = fc.float({ noNaN: true, noDefaultInfinity: true, max: 0 }).map((value) => Math.fround(value));

/** Sequences that obey the contract of the arrays and nothing else. */
const anySequence: fc.Arbitrary<Sequence> = fc
  .array(fc.record({ id: fc.integer({ min: 0, max: 3 }), logprob: fc.option(float32) }), { maxLength: 60 })
  .map((tokens) => ({
    role: 'subagent',
    agent_id: 'agent ☃',
    token_ids: Int32Array.from(tokens, ({ id }) => (id === 3 ? 2_147_483_647 : id)),
    prompt_len: tokens.findIndex(({ logprob }) => logprob !== null) + 1,
    loss_mask: Uint8Array.from(tokens, ({ logprob }) => (logprob === null ? 0 : 1)),
    logprobs: Float32Array.from(tokens, ({ logprob }) => logprob ?? 0),
    turns: [],
    certificate: { grade: 'untrainable', reasons: ['greedy'], notes: [] },
  }));

function payloadOf(calls: Parameters<typeof buildSequences>[0]): Payload {
  return { sequences: buildSequences(calls).sequences, trace: buildTrace(calls) };
}

const noTrace = { calls: [] };
const twoTurns = payloadOf([call(0, [1, 2, 3], [10, 11]), call(1, [1, 2, 3, 10, 11, 4], [12])]);

/** 40 thousand prompt and 20 thousand sampled tokens in 30 turns. */
function longEpisode(): Payload {
  const turns = 30;
  const all = Int32Array.from({ length: 60_000 }, (_, index) => (index * 7919) % 150_000);
  return payloadOf(
    Array.from({ length: turns }, (_, turn) => {
      const end = 2000 * (turn + 1);
      return call(turn, all.subarray(0, end - 667), all.subarray(end - 667, end));
    }),
  );
}

describe('a payload', () => {
  it('decodes to what was encoded, whatever the calls were', () => {
    fc.assert(
      fc.property(histories, ({ calls }) => {
        const payload = payloadOf(calls);
        const bytes = encodePayload(payload);
        expect(decodePayload(bytes)).toEqual(payload);
        expect(decodeTrace(bytes)).toEqual(payload.trace);
      }),
      { numRuns: 200 },
    );
  });

  it('decodes to what was encoded, whatever the tokens, masks and logprobs are', () => {
    fc.assert(
      fc.property(fc.array(anySequence, { maxLength: 5 }), (sequences) => {
        const decoded = decodePayload(encodePayload({ sequences, trace: noTrace }));
        expect(decoded).toEqual({ sequences, trace: noTrace });
      }),
      { numRuns: 200 },
    );
  });

  it('is read from any place in a larger buffer, and does not change with it', () => {
    const bytes = encodePayload(twoTurns);
    for (const offset of [1, 2, 3, 4]) {
      const larger = Buffer.alloc(bytes.length + 8, 0xff);
      larger.set(bytes, offset);
      const decoded = decodePayload(larger.subarray(offset, offset + bytes.length));
      larger.fill(0);
      expect(decoded).toEqual(twoTurns);
    }
  });

  it('has the same bytes each time', () => {
    expect(Buffer.compare(encodePayload(longEpisode()), encodePayload(longEpisode()))).toBe(0);
  });

  it('takes at most 6 bytes a token and some milliseconds for 60 thousand tokens', () => {
    const payload = longEpisode();
    const bytes = encodePayload({ ...payload, trace: noTrace });
    expect(bytes.length / 60_000).toBeLessThan(6);
    const started = performance.now();
    for (let round = 0; round < 10; round += 1) encodePayload(payload);
    expect((performance.now() - started) / 10).toBeLessThan(100);
  });

  it('stores a prefix that sequences share once', () => {
    const shared = Array.from({ length: 1000 }, (_, index) => index);
    const calls = Array.from({ length: 8 }, (_, index) => call(index, [...shared, 9000 + index], [1, 2]));
    const payload = payloadOf(calls);
    expect(payload.sequences).toHaveLength(8);
    const bytes = encodePayload({ ...payload, trace: noTrace });
    expect(bytes.length).toBeLessThan(1000 * 4 + 8 * 500);
    expect(decodePayload(bytes).sequences).toEqual(payload.sequences);
  });

  it('refuses sequences that break the contract of their arrays', () => {
    const sound = twoTurns.sequences[0]!;
    const encode = (broken: Partial<Sequence>) => () =>
      encodePayload({ sequences: [{ ...sound, ...broken }], trace: noTrace });
    expect(encode({ loss_mask: new Uint8Array(3) })).toThrow('sequences[0]: 7 token_ids, 3 loss_mask');
    expect(encode({ loss_mask: Uint8Array.of(0, 0, 0, 2, 1, 0, 1) })).toThrow('loss_mask[3] is 2');
    expect(encode({ logprobs: new Float32Array(7).fill(-1) })).toThrow(
      'logprobs[0] is -1 where the mask is 0',
    );
  });
});

describe('a payload of a faulty writer', () => {
  /** A right checksum over wrong content. */
  const reseal = (change: (bytes: Buffer) => void): Uint8Array => {
    const bytes = Buffer.from(encodePayload(twoTurns));
    change(bytes);
    bytes.writeUInt32LE(crc32(bytes.subarray(12)), 8);
    return bytes;
  };
  const replace = (old: string, next: string) => (bytes: Buffer) => {
    const at = bytes.indexOf(old, 'latin1');
    expect(at).toBeGreaterThan(0);
    bytes.write(next, at, 'latin1');
  };
  const moveSection = (count: number) => (bytes: Buffer) => {
    bytes.writeUInt32LE(bytes.readUInt32LE(12) + count, 12);
    bytes.writeUInt32LE(bytes.readUInt32LE(16) - count, 16);
  };

  it.each<[string, (bytes: Buffer) => void, string]>([
    ['a missing field', replace('\xa6length', '\xa6lenght'), 'payload: '],
    ['no list of sequences', replace('sequences\x91', 'sequences\x01'), 'payload: '],
    ['a mask of other length', replace('\xa4mask\x94\x03', '\xa4mask\x94\x04'), 'mask runs cover 8 of 7'],
    ['a negative run', replace('\xa4mask\x94\x03', '\xa4mask\x94\xff'), 'mask run -1 is not a count'],
    ['too few tokens', moveSection(-1), 'token ids do not fit the header'],
    ['too many tokens', moveSection(1), 'logprobs do not fit the header'],
    [
      'another trace size',
      (bytes) => bytes.writeUInt32LE(bytes.readUInt32LE(28) + 1, 28),
      'trace inflates to',
    ],
    ['a trace that is larger than said', (bytes) => bytes.writeUInt32LE(3, 28), 'trace does not inflate'],
  ])('is refused: %s', (_what, change, message) => {
    expect(() => decodePayload(reseal(change))).toThrow(message);
    expect(() => decodePayload(reseal(change))).toThrow(PayloadError);
  });
});

describe('a damaged payload', () => {
  const bytes = encodePayload(twoTurns);
  const failure = (damaged: Uint8Array, decode: (bytes: Uint8Array) => unknown = decodeTrace): unknown => {
    try {
      decode(damaged);
    } catch (error) {
      return error;
    }
    return undefined;
  };

  it('is refused wherever one bit is wrong', () => {
    for (let at = 0; at < bytes.length; at += 1) {
      const damaged = Uint8Array.from(bytes);
      damaged[at]! ^= 1 << (at % 8);
      if (!(
        failure(damaged) instanceof PayloadError && failure(damaged, decodePayload) instanceof PayloadError
      ))
        expect.fail(`byte ${at} was taken for right`);
    }
  });

  it('is refused wherever it is cut', () => {
    for (let length = 0; length < bytes.length; length += 1)
      expect(() => decodePayload(bytes.subarray(0, length)), `${length} bytes`).toThrow(
        /^payload: cut short/,
      );
  });

  it.each<[string, (copy: Uint8Array) => Uint8Array, string]>([
    ['other bytes', (copy) => copy.fill(0x7b, 0, 1), 'does not start with RPPL'],
    ['a newer version', (copy) => copy.fill(2, 4, 5), 'version 2, this reader knows version 1'],
    ['reserved bytes in use', (copy) => copy.fill(1, 6, 7), 'reserved bytes'],
    ['bytes behind it', (copy) => Buffer.concat([copy, Buffer.alloc(3)]), '3 bytes too many'],
    ['a wrong byte', (copy) => copy.fill(0xff, 40, 41), 'checksum is'],
  ])('is refused with a clear message: %s', (_what, damage, message) => {
    expect(() => decodePayload(damage(Uint8Array.from(bytes)))).toThrow(message);
  });
});
