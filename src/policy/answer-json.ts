import { nanMark, type Answer, type AnswerChoice } from './answer.ts';
import type { ChatRequestBody } from './chat-request.ts';
import type { TurnContent } from './chat-template.ts';

const markedNan = JSON.stringify(nanMark);

/** JSON as the engine's Python writes it: a NaN is the bare word, which JSON does not know. */
export function toJson(value: unknown): string {
  const text = JSON.stringify(value);
  return text.includes(markedNan) ? text.replaceAll(markedNan, 'NaN') : text;
}

/** The finish reason as the chat route words it: see facts on the wire, 1.2. */
export function finishReason(choice: AnswerChoice, request: ChatRequestBody, unary: boolean): string {
  const calls = unary ? choice.message.calls.length : choice.streamed.calls.length;
  const named = typeof request.tool_choice === 'object' && request.tool_choice !== null;
  if (choice.engineFinish === 'abort' || calls === 0 || named) return choice.engineFinish;
  // A whole answer is called tool_calls even when the token limit cut the text after the calls.
  return unary || choice.engineFinish === 'stop' ? 'tool_calls' : choice.engineFinish;
}

function toolCalls(message: TurnContent, ids: readonly string[]): unknown[] {
  return message.calls.map((call, index) => ({
    id: ids[index],
    type: 'function',
    function: { name: call.name, arguments: call.arguments },
  }));
}

/** The body of an answer given whole. What was not asked for is there as null, as pydantic dumps it. */
export function unaryBody(answer: Answer, request: ChatRequestBody): unknown {
  return {
    id: answer.id,
    object: 'chat.completion',
    created: answer.created,
    model: answer.model,
    choices: answer.choices.map((choice) => ({
      index: choice.index,
      message: {
        role: 'assistant',
        content:
          choice.message.content === ''
            ? choice.message.calls.length > 0
              ? null
              : ''
            : choice.message.content,
        refusal: null,
        annotations: null,
        audio: null,
        function_call: null,
        tool_calls: toolCalls(choice.message, choice.callIds),
        reasoning: choice.message.reasoning === '' || !answer.showReasoning ? null : choice.message.reasoning,
      },
      logprobs: answer.showLogprobs ? { content: choice.steps.flatMap((step) => step.entries) } : null,
      finish_reason: finishReason(choice, request, true),
      stop_reason: choice.stopString,
      token_ids: answer.showIds ? choice.steps.flatMap((step) => step.ids) : null,
    })),
    service_tier: null,
    system_fingerprint: null,
    usage: { ...answer.usage, prompt_tokens_details: null },
    prompt_logprobs: null,
    prompt_token_ids: request.return_token_ids ? answer.promptIds : null,
    kv_transfer_params: null,
  };
}

function streamDelta(choice: AnswerChoice, at: number, answer: Answer): Record<string, unknown> {
  const delta: Record<string, unknown> = {};
  const calls: Record<string, unknown>[] = [];
  for (const part of choice.steps[at]?.step.deltas ?? []) {
    if (part.kind === 'content')
      delta['content'] = `${(delta['content'] as string | undefined) ?? ''}${part.text}`;
    else if (part.kind === 'reasoning') {
      if (answer.showReasoning) delta['reasoning'] = part.text;
    } else if (part.index >= choice.streamed.calls.length) {
      continue;
    } else if (part.kind === 'call') {
      const id = choice.callIds[part.index];
      calls.push({ index: part.index, id, type: 'function', function: { name: part.name, arguments: '' } });
    } else {
      calls.push({ index: part.index, function: { arguments: part.text } });
    }
  }
  if (calls.length > 0) delta['tool_calls'] = calls;
  return delta;
}

/**
 * The chunks of a streamed answer, in order: the role first (with the prompt's ids), then one for each sampled token,
 * also where a parser swallowed its text, and the usage last when asked for. Fields not asked for are left out.
 */
export function* streamChunks(answer: Answer, request: ChatRequestBody): Generator<unknown> {
  const head = {
    id: answer.id,
    object: 'chat.completion.chunk',
    created: answer.created,
    model: answer.model,
  };
  const running = request.stream_options?.continuous_usage_stats === true;
  const prompt = answer.usage.prompt_tokens;
  const usage = (completion: number): Record<string, unknown> =>
    running
      ? { usage: { prompt_tokens: prompt, completion_tokens: completion, total_tokens: prompt + completion } }
      : {};
  for (const choice of answer.choices) {
    const opening = { role: 'assistant', content: '' };
    yield {
      ...head,
      choices: [{ index: choice.index, delta: opening, logprobs: null, finish_reason: null }],
      ...(request.return_token_ids && answer.promptIds !== null
        ? { prompt_token_ids: answer.promptIds }
        : {}),
      ...usage(0),
    };
  }
  for (const choice of answer.choices) {
    for (const [at, step] of choice.steps.entries()) {
      const last = at === choice.steps.length - 1;
      yield {
        ...head,
        choices: [
          {
            index: choice.index,
            delta: streamDelta(choice, at, answer),
            logprobs: answer.showLogprobs ? { content: step.entries } : null,
            finish_reason: last ? finishReason(choice, request, false) : null,
            ...(last ? { stop_reason: choice.stopString } : {}),
            ...(answer.showIds ? { token_ids: step.ids } : {}),
          },
        ],
        ...usage(at + 1),
      };
    }
  }
  if (request.stream_options?.include_usage === true) yield { ...head, choices: [], usage: answer.usage };
}
