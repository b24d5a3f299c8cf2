import { EpisodeError } from '../../contracts/index.ts';
import type { ToolResult } from '../environment.ts';
import { pause } from './capped.ts';
import { McpFailure } from './mcp-failure.ts';
import { backoffMs, type McpTimings } from './timings.ts';
import { toToolResult } from './tool-result.ts';
import type { OfferedTool } from './wait-for-tools.ts';

export interface CallToolContext {
  readonly timeoutMs: number;
  readonly signal: AbortSignal;
  readonly timings: McpTimings;
  readonly isGone: () => Promise<boolean>;
  readonly onRetry: (failure: McpFailure) => void;
  /** The model is told of a call that got no answer. */
  readonly onUnanswered: () => void;
}

function errorResult(text: string): ToolResult {
  return { text, images: [], is_error: true };
}

function inSeconds(ms: number): string {
  const seconds = Math.max(1, Math.round(ms / 1000));
  return seconds === 1 ? '1 second' : `${seconds} seconds`;
}

/** What the model is told of a call that got no answer. */
function failureText(tool: OfferedTool, failure: McpFailure, elapsedMs: number): string {
  const doubt =
    failure.notExecuted || tool.repeatable ? '' : ' The call may have been carried out all the same.';
  if (failure.kind === 'rpc') return `The tool ${tool.name} refused the call: ${failure.message}`;
  if (failure.kind === 'timeout') {
    return `The tool ${tool.name} did not answer within ${inSeconds(elapsedMs)}.${doubt}`;
  }
  const tried = failure.passing && failure.notExecuted ? ` within ${inSeconds(elapsedMs)}` : '';
  return `The tool ${tool.name} could not be reached${tried}: ${failure.message}.${doubt}`;
}

/**
 * Calls one tool, with tries until `timeoutMs` is over. A failed call is tried again only where that cannot do a thing
 * twice, because a booking made twice is another episode than the policy played:
 *
 * - always when the failure shows that the call was not executed: no connection, the session could not be opened or is
 *   unknown, 404, 408, 425, 429, 502, 503 (see McpFailure.notExecuted);
 * - when the call may have been executed (connection lost, no answer within the cap of an operation, 500, 504), only if
 *   the tool's annotations say that repeating it changes nothing (`readOnlyHint`, `idempotentHint`). For any other tool
 *   the model is told that the call may have been carried out, and can look. The vendor's client repeats all of these.
 *
 * An error of the tool or of JSON-RPC (invalid parameters) is a result, never tried again. Rejects with EpisodeError
 * `environment_gone` (infra, agent) when the provider says so after a failure, or with the signal's reason.
 */
export async function callTool(
  tool: OfferedTool,
  args: Readonly<Record<string, unknown>>,
  { timeoutMs, signal, timings, isGone, onRetry, onUnanswered }: CallToolContext,
): Promise<ToolResult> {
  const begun = performance.now();
  for (let attempt = 0; ; attempt++) {
    const left = Math.max(1, timeoutMs - (performance.now() - begun));
    let failure: McpFailure;
    try {
      return toToolResult(
        await tool.endpoint.run(
          (session, ms, own) => session.callTool(tool.name, args, ms, own),
          left,
          signal,
        ),
      );
    } catch (error) {
      if (!(error instanceof McpFailure)) throw error;
      failure = error;
    }
    if (failure.kind === 'rpc' && !failure.opening) return errorResult(failureText(tool, failure, 0));
    // A session that the server forgot says nothing about the environment yet: opening a new one will tell.
    if (!failure.sessionGone && (await isGone())) {
      throw new EpisodeError(
        {
          class: 'infra',
          phase: 'agent',
          code: 'environment_gone',
          message: `the environment went away during a call of ${tool.name} (${failure.message})`,
        },
        { cause: failure },
      );
    }
    signal.throwIfAborted();
    const elapsed = performance.now() - begun;
    const wait = failure.sessionGone ? 0 : backoffMs(timings, attempt);
    const mayRepeat = failure.passing && (failure.notExecuted || tool.repeatable);
    if (!mayRepeat || elapsed + wait >= timeoutMs) {
      onUnanswered();
      return errorResult(failureText(tool, failure, elapsed));
    }
    await pause(wait, signal);
    onRetry(failure);
  }
}
