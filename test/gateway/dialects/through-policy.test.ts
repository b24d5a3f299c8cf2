import fc from 'fast-check';
import { expect, test } from 'vitest';
import { messages, openGateway } from '../support/open-gateway.ts';
import { policyWith } from '../../policy/support.ts';
import { growing } from './conversations.ts';

const withoutImages = growing.filter((requests) => !JSON.stringify(requests).includes('"image"'));

test('any valid conversation is taken by a policy that checks as vLLM does, and recorded token for token', async () => {
  await using policy = await policyWith([{ text: 'Yes.' }], { model: 'policy' });
  await using opened = await openGateway(policy.url, {
    limits: { max_turns: 1_000_000, max_sampled_tokens: 1_000_000_000, turn_seconds: 20 },
  });
  await fc.assert(
    fc.asyncProperty(withoutImages, async (requests) => {
      const session = await opened.open();
      for (const list of requests) {
        const response = await messages(session, list);
        const told = await response.text();
        expect(response.status, told).toBe(200);
      }
      const records = await session.finish();
      expect(records.map(({ fate, reasons }) => [fate, ...reasons])).toEqual(
        requests.map(() => ['delivered']),
      );
    }),
    { numRuns: 40 },
  );
});
