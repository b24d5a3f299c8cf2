import type { Answer, AnswerChoice } from './answer.ts';
import type { ChatRequestBody } from './chat-request.ts';
import { endOfTurn } from './special-tokens.ts';

/** Which version of the weights answered, and where that changed in mid-answer which one sampled what. */
export interface Weights {
  readonly weight_version: string;
  readonly weight_versions?: readonly {
    readonly version: string;
    readonly start: number;
    readonly end: number;
  }[];
}

/** Facts on the wire, 2. What each choice's `meta_info` and the whole of a `/generate` answer say. */
function metaInfo(
  answer: Answer,
  choice: AnswerChoice,
  rid: string,
  weights: Weights,
): Record<string, unknown> {
  const { engineFinish: type, stopString, steps } = choice;
  const finish =
    type === 'stop'
      ? { type, matched: stopString ?? endOfTurn }
      : type === 'length'
        ? { type, length: steps.length }
        : { type, message: 'Aborted' };
  return {
    id: rid,
    finish_reason: finish,
    prompt_tokens: answer.usage.prompt_tokens,
    completion_tokens: answer.usage.completion_tokens,
    cached_tokens: 0,
    ...weights,
    ...(answer.showLogprobs
      ? {
          output_token_logprobs: steps.flatMap(({ step, entries }) =>
            entries.map(({ logprob }) => [logprob, answer.showIds ? step.draw.id : null, null]),
          ),
        }
      : {}),
  };
}

/** What of the ids a chat request asked to see. */
export interface SglangWishes {
  readonly tokenIds: boolean;
  readonly promptIds: boolean;
  readonly metaInfo: boolean;
}

/** SGLang's word for how a chat answer ended: calls are named only where the engine itself stopped. */
function chatFinish(choice: AnswerChoice): string {
  return choice.engineFinish === 'stop' && choice.message.calls.length > 0
    ? 'tool_calls'
    : choice.engineFinish;
}

/** The body of a whole answer of SGLang's chat route. */
export function sglangChatBody(
  answer: Answer,
  request: ChatRequestBody,
  wishes: SglangWishes,
  rid: string,
  weights: Weights,
): unknown {
  return {
    id: rid,
    object: 'chat.completion',
    created: answer.created,
    model: answer.model,
    choices: answer.choices.map((choice) => ({
      index: choice.index,
      message: {
        role: 'assistant',
        content: choice.message.content,
        reasoning_content: choice.message.reasoning || null,
        tool_calls:
          choice.message.calls.length === 0
            ? null
            : choice.message.calls.map((call, index) => ({
                id: choice.callIds[index],
                index,
                type: 'function',
                function: { name: call.name, arguments: call.arguments },
              })),
      },
      logprobs:
        request.logprobs && answer.showLogprobs
          ? { content: choice.steps.flatMap((step) => step.entries) }
          : null,
      finish_reason: chatFinish(choice),
      matched_stop: choice.engineFinish === 'stop' ? (choice.stopString ?? endOfTurn) : null,
      ...(wishes.promptIds && answer.promptIds !== null ? { prompt_token_ids: answer.promptIds } : {}),
      ...(wishes.tokenIds && answer.showIds ? { token_ids: choice.steps.flatMap((step) => step.ids) } : {}),
      ...(wishes.metaInfo ? { meta_info: metaInfo(answer, choice, rid, weights) } : {}),
    })),
    usage: { ...answer.usage, prompt_tokens_details: null, reasoning_tokens: 0 },
    metadata: { ...weights },
  };
}

/** The body of an answer of `/generate`. */
export function sglangGenerateBody(answer: Answer, rid: string, weights: Weights): unknown {
  const [choice] = answer.choices;
  if (choice === undefined) return null;
  return {
    text: choice.message.content,
    ...(answer.showIds ? { output_ids: choice.steps.flatMap((step) => step.ids) } : {}),
    meta_info: metaInfo(answer, choice, rid, weights),
  };
}
