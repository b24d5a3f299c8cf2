import fc from 'fast-check';
import { expect, test } from 'vitest';
import { scanCompletion } from '../../../src/gateway/engines/scan/completion-scan.ts';
import { vllmCompletionsAnswer } from '../../../src/gateway/engines/vllm-completions.ts';

const id = fc.nat({ max: 200_000 });
const logprob = fc.double({ max: 0, noNaN: true, noDefaultInfinity: true });
const token = fc.string({ unit: 'binary' });

const body = fc.record({
  choices: fc.tuple(
    fc.record({
      text: fc.string({ unit: 'binary' }),
      token_ids: fc.array(id),
      prompt_token_ids: fc.option(fc.array(id)),
      logprobs: fc.option(
        fc.record(
          {
            tokens: fc.array(token),
            token_logprobs: fc.array(fc.option(logprob)),
            top_logprobs: fc.option(fc.array(fc.option(fc.dictionary(token, logprob)))),
            text_offset: fc.array(fc.nat()),
          },
          { requiredKeys: ['token_logprobs'] },
        ),
      ),
      finish_reason: fc.constantFrom('stop', 'length', 'abort', null),
      stop_reason: fc.constantFrom(null, 'x', 5),
    }),
  ),
  usage: fc.option(fc.record({ prompt_tokens: fc.nat(), completion_tokens: fc.nat() })),
});

test('an answer to ids that is read off its bytes is the one that parsing gives', () => {
  let scanned = 0;
  fc.assert(
    fc.property(body, (answer) => {
      const text = JSON.stringify(answer);
      const prompt = Int32Array.from(answer.choices[0].prompt_token_ids ?? [1, 2]);
      const read = scanCompletion(Buffer.from(text));
      if (read === null) return;
      scanned++;
      expect(vllmCompletionsAnswer(read, {}, prompt, 'hermes')).toEqual(
        vllmCompletionsAnswer(JSON.parse(text), {}, prompt, 'hermes'),
      );
    }),
    { numRuns: 500 },
  );
  expect(scanned).toBeGreaterThan(400);
});
