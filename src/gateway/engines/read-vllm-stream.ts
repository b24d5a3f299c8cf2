import { object } from './completion-parts.ts';
import { EngineError } from './engine-error.ts';
import { replyFault } from './engine-faults.ts';
import type { EngineAnswer } from './engine.ts';
import type { GrowingAnswer } from './growing-answer.ts';
import { parseLenientJson } from './lenient-json.ts';
import { SseReader } from './sse-reader.ts';
import { VllmStreamAnswer } from './vllm-stream.ts';

function broken(message: string, cause?: unknown): EngineError {
  return new EngineError('busy', message, { status: 200, cause });
}

/** One event's data into the answer. Throws EngineError for an error event and for what is no chunk. */
function take(data: string, answer: GrowingAnswer): void {
  if (answer.pushText(data)) return;
  let chunk: unknown;
  try {
    chunk = parseLenientJson(data);
  } catch (cause) {
    throw broken('the policy streamed something that is no JSON', cause);
  }
  if (answer.push(chunk)) return;
  const error = object(chunk)?.['error'];
  if (error === undefined) throw broken('the policy streamed something that is no completion');
  const code = object(error)?.['code'];
  const status = typeof code === 'number' && code >= 400 && code < 600 ? code : 500;
  throw replyFault({ status, headers: {}, text: data });
}

/**
 * The answer in a stream of vLLM's. `[DONE]` alone is no proof of success: it also comes after an error event. A stream
 * that ends without it and without a finish reason was cut. Rejects with EngineError or with the body's own error, after
 * telling `onPartial` what had come. `answer`: what the chunks are put together to. Default: a chat completion.
 */
export async function readVllmStream(
  body: AsyncIterable<Buffer> | Iterable<Buffer>,
  onPartial: ((partial: EngineAnswer) => void) | undefined,
  answer: GrowingAnswer = new VllmStreamAnswer(),
): Promise<EngineAnswer> {
  const events = new SseReader();
  let done = false;
  const read = (data: string): void => {
    if (data === '[DONE]') done = true;
    else if (!done) take(data, answer);
  };
  try {
    for await (const chunk of body) events.push(chunk).forEach(read);
    const last = events.end();
    if (last !== null) read(last);
    if (!answer.begun || !(done || answer.finished)) throw broken('the policy’s stream ended in mid-answer');
  } catch (error) {
    // Else the connection broke behind the end of the answer.
    if (!done || !answer.finished) {
      if (answer.begun) {
        const partial = answer.answer();
        onPartial?.({ ...partial, reasons: [...partial.reasons, 'aborted'] });
      }
      throw error;
    }
  }
  answer.end();
  return answer.answer();
}
