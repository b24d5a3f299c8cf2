import fc from 'fast-check';
import { expect, test } from 'vitest';
import { ChatError } from '../../src/gateway/chat.ts';
import { completion, FakeVllm, json, type Play } from './support/fake-vllm.ts';
import { openGateway } from './support/open-gateway.ts';

/** A call: who makes it, how many tokens it asks for, and which part of them its answer takes. */
const call = fc.record({
  agent: fc.constantFrom('main', 'a1', 'a2', 'a3'),
  asks: fc.integer({ min: 1, max: 60 }),
  takes: fc.constantFrom(0.1, 0.5, 1),
});

/** Answers with the part of its limit that stands in the last message, cut where that is all of it. */
const part: Play = (_request, response, body) => {
  const takes = Number(body.messages.at(-1).content);
  const limit = body.max_tokens as number;
  const ids = Array.from({ length: Math.max(1, Math.round(limit * takes)) }, (_, at) => at);
  json(response, 200, completion({ ids, finish: ids.length === limit ? 'length' : 'stop' }));
};

test('however many agents call at once, they get all of the tokens and not one more, and none waits for ever', async () => {
  await using vllm = await FakeVllm.start(part);
  await using opened = await openGateway(vllm.url);
  await fc.assert(
    fc.asyncProperty(
      fc.array(fc.array(call, { minLength: 1, maxLength: 8 }), { minLength: 1, maxLength: 4 }),
      fc.integer({ min: 1, max: 200 }),
      async (rounds, budget) => {
        await using session = await opened.open({
          max_sampled_tokens: budget,
          max_output_tokens: 50,
          max_turns: 1_000,
        });
        let refused = false;
        for (const round of rounds) {
          const ends = await Promise.allSettled(
            round.map(async ({ agent, asks, takes }) => {
              const answer = await session.chat(
                { messages: [{ role: 'user', content: String(takes) }], max_tokens: asks },
                {
                  agent_id: agent,
                  role: agent === 'main' ? 'main' : 'subagent',
                  signal: AbortSignal.timeout(30_000),
                },
              );
              answer.delivered(true);
            }),
          );
          for (const end of ends) {
            if (end.status === 'fulfilled') continue;
            expect(end.reason).toBeInstanceOf(ChatError);
            expect(end.reason).toMatchObject({ code: 'token_budget' });
            refused = true;
          }
          const { completion_tokens: sampled } = session.stats();
          expect(sampled).toBeLessThanOrEqual(budget);
          // None is refused as long as anything is left.
          if (refused)
            expect(session.stats()).toMatchObject({ completion_tokens: budget, budget: 'max_tokens' });
        }
        const records = await session.finish();
        for (const { max_tokens, token_ids } of records) {
          expect(token_ids!.length).toBeLessThanOrEqual(max_tokens);
          expect(max_tokens).toBeLessThanOrEqual(50);
        }
      },
    ),
    { numRuns: 60 },
  );
});
