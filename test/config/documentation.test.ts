import { expect, it } from 'vitest';
import { configurationPage } from '../../src/config/index.ts';

it('docs/configuration.md says what the schema says (npx vitest run test/config --update=all writes it)', async () => {
  await expect(configurationPage()).toMatchFileSnapshot('../../docs/configuration.md');
});
