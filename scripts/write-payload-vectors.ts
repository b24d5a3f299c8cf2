// Writes the golden payloads that every reader of the format is tested with: `npx tsx scripts/write-payload-vectors.ts`.
import { writeFileSync } from 'node:fs';
import { encodePayload, sequenceToJson } from '../src/trajectory/index.ts';
import { payloadVectors } from '../test/fixtures/payload/vectors.ts';

for (const [name, payload] of Object.entries(payloadVectors)) {
  const file = (ending: string): URL =>
    new URL(`../test/fixtures/payload/${name}.${ending}`, import.meta.url);
  const json = { sequences: payload.sequences.map(sequenceToJson), trace: payload.trace };
  writeFileSync(file('bin'), encodePayload(payload));
  writeFileSync(file('json'), `${JSON.stringify(json, null, 1)}\n`);
}
