import { EpisodeError, type Phase } from '../contracts/index.ts';

/** What a provider did wrong or could not do: retried elsewhere. `code` is stable: sandbox_gone, boot_failed, kill_failed, ... */
export function infraFailure(
  code: string,
  message: string,
  options: { phase?: Phase; cause?: unknown } = {},
): EpisodeError {
  return new EpisodeError(
    { class: 'infra', phase: options.phase ?? 'agent', code, message },
    options.cause === undefined ? undefined : { cause: options.cause },
  );
}

/** What the task asks for and nobody can give: an image that is not there, no bash in it, a path that cannot be. */
export function taskFailure(
  code: string,
  message: string,
  options: { phase?: Phase; cause?: unknown } = {},
): EpisodeError {
  return new EpisodeError(
    { class: 'task', phase: options.phase ?? 'boot', code, message },
    options.cause === undefined ? undefined : { cause: options.cause },
  );
}

/** The words of an error, on one line. */
export function reasonOf(error: unknown): string {
  return (error instanceof Error ? error.message : String(error)).replace(/\s+/g, ' ').trim();
}
