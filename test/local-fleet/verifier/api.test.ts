import { expect, test } from 'vitest';
import { changes, expressions, inOtherWords, probe, seed } from './api-probe.ts';
import { openScene } from './scene.ts';

// The same expressions are held against the vendor's SDK where it is installed: test/e2e/fleet-python.test.ts.
test('what verifiers call answers, and fails, in words that stay', async () => {
  using scene = openScene(seed, changes);
  const { result, error } = await scene.run(probe([...expressions, ...inOtherWords]));
  expect(error).toBeNull();
  const lines = (result as [string, unknown][]).map(([asked, value]) => {
    const text = typeof value === 'string' ? value : JSON.stringify(value);
    return `${asked}\n    ${text.replaceAll('\n', '\n    ')}\n`;
  });
  await expect(lines.join('\n')).toMatchFileSnapshot('api.snapshot.txt');
});
