import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { jsonSchemas } from '../../scripts/json-schema.ts';

describe('the published JSON Schema', () => {
  it.each(Object.entries(jsonSchemas()))('%s is the one of the contracts', (name, text) => {
    const published = readFileSync(new URL(`../../docs/schema/${name}`, import.meta.url), 'utf8');
    expect(published, 'run `npx tsx scripts/write-schema.ts`').toBe(text);
  });

  it('of a task asks for no field that has a default', () => {
    const task = JSON.parse(jsonSchemas()['task.json']!);
    const [claudeCode, fleet] = task.oneOf;
    expect(claudeCode.required).toEqual(['task_key', 'prompt', 'kind', 'verify']);
    expect(fleet.required).toEqual(['task_key', 'prompt', 'kind', 'env_key']);
  });
});
