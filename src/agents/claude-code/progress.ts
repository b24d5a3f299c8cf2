import { z } from 'zod';

/**
 * The CLI's last event, as far as we read it (measured with 2.1.332; facts: claude-code 5). API failures come with
 * subtype "success", so `subtype` alone says nothing.
 */
const resultEventSchema = z.object({
  type: z.literal('result'),
  subtype: z.string().catch(''),
  is_error: z.boolean(),
  num_turns: z.number().catch(0),
  stop_reason: z.string().nullish().catch(null),
  terminal_reason: z.string().nullish().catch(null),
  api_error: z.string().nullish().catch(null),
  api_error_status: z.number().nullish().catch(null),
  result: z.string().nullish().catch(null),
  errors: z.array(z.string()).catch([]),
  permission_denials: z.array(z.unknown()).catch([]),
});
export type ResultEvent = z.infer<typeof resultEventSchema>;

/** What is kept of a CLI's events: counts, and its last word. Never a source of training data. */
export interface Progress {
  readonly started: boolean;
  readonly assistant_messages: number;
  readonly tool_calls: number;
  readonly api_retries: number;
  readonly result: ResultEvent | null;
}

export const noProgress: Progress = {
  started: false,
  assistant_messages: 0,
  tool_calls: 0,
  api_retries: 0,
  result: null,
};

function blocks(event: Readonly<Record<string, unknown>>): readonly unknown[] {
  const message = event['message'];
  if (message === null || typeof message !== 'object') return [];
  const content = (message as Record<string, unknown>)['content'];
  return Array.isArray(content) ? content : [];
}

function isToolUse(block: unknown): boolean {
  return block !== null && typeof block === 'object' && (block as { type?: unknown }).type === 'tool_use';
}

/** One event further. The CLI sends one assistant event for each content block. Unknown events change nothing. */
export function advance(progress: Progress, event: Readonly<Record<string, unknown>>): Progress {
  switch (event['type']) {
    case 'system':
      if (event['subtype'] === 'init') return { ...progress, started: true };
      if (event['subtype'] === 'api_retry') return { ...progress, api_retries: progress.api_retries + 1 };
      return progress;
    case 'assistant':
      return {
        ...progress,
        assistant_messages: progress.assistant_messages + 1,
        tool_calls: progress.tool_calls + blocks(event).filter(isToolUse).length,
      };
    case 'result': {
      const result = resultEventSchema.safeParse(event);
      return result.success ? { ...progress, result: result.data } : progress;
    }
    default:
      return progress;
  }
}
