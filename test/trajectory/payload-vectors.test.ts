import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { decodePayload, decodeTrace, encodePayload, sequenceToJson } from '../../src/trajectory/index.ts';
import { frameOffsets, openFrame } from '../../src/trajectory/payload/frame.ts';
import { payloadVectors } from '../fixtures/payload/vectors.ts';

const file = (name: string): Buffer => readFileSync(new URL(`../fixtures/payload/${name}`, import.meta.url));
const hint =
  'run `npx tsx scripts/write-payload-vectors.ts`, and raise the version if old payloads changed meaning';

describe.each(Object.entries(payloadVectors))('the golden payload %s', (name, payload) => {
  const golden = file(`${name}.bin`);

  it('decodes to its payload and to its JSON', () => {
    expect(decodePayload(golden), hint).toEqual(payload);
    expect(decodeTrace(golden), hint).toEqual(payload.trace);
    const json = { sequences: payload.sequences.map(sequenceToJson), trace: payload.trace };
    expect(JSON.parse(file(`${name}.json`).toString()), hint).toEqual(json);
  });

  it('is what is written today', () => {
    const written = encodePayload(payload);
    const [now, then] = [openFrame(written), openFrame(golden)];
    // Builds of zlib may deflate differently, so the trace is compared by what it inflates to (above).
    expect({ ...now, trace: 0 }, hint).toEqual({ ...then, trace: 0 });
    const { tokens, trace } = frameOffsets(now);
    expect(Buffer.from(written.subarray(tokens, trace)), hint).toEqual(golden.subarray(tokens, trace));
  });
});
