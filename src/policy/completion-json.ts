import type { Answer, AnswerChoice } from './answer.ts';
import type { ChatRequestBody } from './chat-request.ts';

type Entry = AnswerChoice['steps'][number]['entries'][number];

/** The likeliest tokens with the sampled one among them: one more than asked for only where it is none of these. */
function topLogprobs({ logprob, top_logprobs: top }: Entry): Record<string, unknown> {
  const asked = top.length - 1;
  const likelier = top.filter((other) => Number(other.logprob) > Number(logprob)).length;
  const kept = likelier < asked ? top.slice(0, asked) : top;
  return Object.fromEntries(kept.map((one) => [one.token, one.logprob]));
}

/** `text_offset` counts the tokens as they are written, `token_id:N` too; `from`: the text before these steps. */
function logprobsOf(entries: readonly Entry[], from: number): unknown {
  let offset = from;
  const offsets = entries.map(({ token }) => {
    const at = offset;
    offset += token.length;
    return at;
  });
  return {
    text_offset: offsets,
    token_logprobs: entries.map(({ logprob }) => logprob),
    tokens: entries.map(({ token }) => token),
    top_logprobs: entries.map(topLogprobs),
  };
}

function head(answer: Answer): Record<string, unknown> {
  return { id: answer.id, object: 'text_completion', created: answer.created, model: answer.model };
}

/** The body of a whole answer of `/v1/completions`: facts on the wire, 1.5. */
export function completionBody(answer: Answer, request: ChatRequestBody): unknown {
  return {
    ...head(answer),
    choices: answer.choices.map((choice) => ({
      index: choice.index,
      text: choice.message.content,
      logprobs: answer.showLogprobs
        ? logprobsOf(
            choice.steps.flatMap((step) => step.entries),
            0,
          )
        : null,
      finish_reason: choice.engineFinish,
      stop_reason: choice.stopString,
      token_ids: answer.showIds ? choice.steps.flatMap((step) => step.ids) : null,
      prompt_logprobs: null,
      prompt_token_ids: request.return_token_ids ? answer.promptIds : null,
    })),
    service_tier: null,
    system_fingerprint: null,
    usage: { ...answer.usage, prompt_tokens_details: null },
    kv_transfer_params: null,
  };
}

/**
 * The chunks of a streamed answer, one for each sampled token, the usage last when asked for. The prompt's ids come with a
 * choice's first. Fields not asked for are there as null.
 */
export function* completionChunks(answer: Answer, request: ChatRequestBody): Generator<unknown> {
  const running = request.stream_options?.continuous_usage_stats === true;
  const prompt = answer.usage.prompt_tokens;
  for (const choice of answer.choices) {
    let sent = 0;
    for (const [at, { step, ids, entries }] of choice.steps.entries()) {
      const text = step.deltas.map((delta) => ('text' in delta ? delta.text : '')).join('');
      const last = at === choice.steps.length - 1;
      yield {
        ...head(answer),
        choices: [
          {
            index: choice.index,
            text,
            logprobs: answer.showLogprobs ? logprobsOf(entries, sent) : null,
            finish_reason: last ? choice.engineFinish : null,
            stop_reason: last ? choice.stopString : null,
            prompt_token_ids: at === 0 && request.return_token_ids ? answer.promptIds : null,
            token_ids: answer.showIds ? ids : null,
          },
        ],
        usage: running
          ? { prompt_tokens: prompt, completion_tokens: at + 1, total_tokens: prompt + at + 1 }
          : null,
      };
      sent += text.length;
    }
  }
  if (request.stream_options?.include_usage === true)
    yield { ...head(answer), choices: [], usage: answer.usage };
}
