import { expect, test } from 'vitest';
import { FakeVllm, hang } from './support/fake-vllm.ts';
import { messages, openGateway } from './support/open-gateway.ts';

test('many calls on their way at once are no leak, and Node does not say that they are', async () => {
  const warnings: string[] = [];
  const warned = (warning: Error): void => void warnings.push(warning.message);
  process.on('warning', warned);
  try {
    await using vllm = await FakeVllm.start(hang);
    await using opened = await openGateway(vllm.url);
    const calls = Array.from({ length: 20 }, async (_, at) => {
      const response = await messages(opened.session, `call ${at}`);
      await response.text();
      return response.status;
    });
    await vllm.asked(20);
    await opened.session.finish();
    expect(new Set(await Promise.all(calls))).toEqual(new Set([403]));
    expect(warnings).toEqual([]);
  } finally {
    process.off('warning', warned);
  }
});
