import { AuthenticationError, RateLimitError, SandboxNotFoundError, ServiceBusyError } from 'e2b';
import { EpisodeError, type Phase } from '../../contracts/index.ts';
import { infraFailure, reasonOf, taskFailure } from '../sandbox-failure.ts';

/** The HTTP status in an error of the SDK; null where it has none. */
export function statusOf(error: unknown): number | null {
  if (error instanceof AuthenticationError) return 401;
  const { statusCode } = (error ?? {}) as { statusCode?: unknown };
  return typeof statusCode === 'number' ? statusCode : null;
}

/** An error of the SDK for people; `refused`: the service does not take the key. */
export function explainE2bError(error: unknown): { readonly refused: boolean; readonly why: string } {
  const status = statusOf(error);
  return { refused: status === 401 || status === 403, why: reasonOf(error) };
}

/** No place or too many at once: nothing was made, and trying again later is no attempt (facts: E2B 2.8). */
export function isBackpressure(error: unknown): boolean {
  return error instanceof RateLimitError || error instanceof ServiceBusyError;
}

/** The service says that there is no such sandbox. */
export function isNotFound(error: unknown): boolean {
  return error instanceof SandboxNotFoundError || statusOf(error) === 404;
}

/** Whether a creation that failed so may have made a sandbox, or may still do: no answer, or one that does not say. */
export function mayHaveMade(error: unknown): boolean {
  const status = statusOf(error);
  return status === null || status >= 500;
}

/** Whether the same creation may pass when it is sent again. */
export function isTransient(error: unknown): boolean {
  const status = statusOf(error);
  return status === null || status === 408 || status === 409 || status >= 500;
}

/** The service does not take the key: another worker has the same one. */
export function keyRefused(error: unknown, phase: Phase): EpisodeError {
  return new EpisodeError(
    {
      class: 'infra',
      phase,
      code: 'e2b_key_refused',
      message: `E2B does not take the key (E2B_API_KEY): ${reasonOf(error)}`,
      retryable: false,
    },
    { cause: error },
  );
}

/** The longest life in a refusal to give a sandbox so much time, milliseconds; null when it was refused for something else. */
export function longestLife(error: unknown): number | null {
  if (statusOf(error) !== 400) return null;
  const words = reasonOf(error);
  if (!/time-?out|lifetime|time to live|length/i.test(words)) return null;
  const found = /(\d+(?:\.\d+)?)\s*(hours?|h\b|minutes?|min\b|m\b|seconds?|s\b)/i.exec(words);
  if (found === null) return 3_600_000;
  const unit = found[2]!.toLowerCase();
  return Number(found[1]) * (unit.startsWith('h') ? 3_600_000 : unit.startsWith('m') ? 60_000 : 1_000);
}

/** Why no sandbox was made, in the task's words where the task is at fault. */
export function createFailure(error: unknown, template: string, hint: string): EpisodeError {
  if (error instanceof EpisodeError) return error;
  const status = statusOf(error);
  const why = reasonOf(error);
  if (status === 401 || status === 403) return keyRefused(error, 'boot');
  const named = `sandbox.template: ${JSON.stringify(template)}`;
  if (status === 404) {
    return taskFailure('template_missing', `${named} is no template of this E2B team${hint} (${why})`, {
      cause: error,
    });
  }
  if (status === 400 && /template|build|alias/i.test(why)) {
    return taskFailure('template_unfit', `${named} cannot be used: ${why}`, { cause: error });
  }
  if (status === 400 && /network|domain|cidr|egress|allow.?out|deny.?out/i.test(why)) {
    return taskFailure('network_refused', `sandbox.network: E2B does not take it: ${why}`, { cause: error });
  }
  return infraFailure('boot_failed', `E2B made no sandbox: ${why}`, { phase: 'boot', cause: error });
}
