// Writes docs/schema from the contracts: `npx tsx scripts/write-schema.ts`.
import { writeFileSync } from 'node:fs';
import { jsonSchemas } from './json-schema.ts';

for (const [name, text] of Object.entries(jsonSchemas()))
  writeFileSync(new URL(`../docs/schema/${name}`, import.meta.url), text);
