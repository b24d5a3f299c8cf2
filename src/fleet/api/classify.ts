import { FleetApiError, type FleetApiErrorKind } from './api-error.ts';
import { readErrorBody } from './error-body.ts';
import { retryAfterMs } from './retry-after.ts';

/** Words of failures that pass, in whatever status they come. Source: the public OpenEnv source on creations. */
const passing = [
  'health check',
  'timeout',
  'timed out',
  'connection',
  'temporarily',
  'rate limit',
  'too many in-flight',
];

/** Kinds whose words may name anything, an environment called "connection" too, and that never pass by themselves. */
const lasting: ReadonlySet<FleetApiErrorKind> = new Set([
  'authentication',
  'team_not_found',
  'environment_access',
  'permission',
  'region',
  'environment_not_found',
  'version_not_found',
]);

/**
 * Kind of a refusal. The vendor's order, but for one thing: a version that is not found is looked for before an
 * environment, since its message names both ("Version 'v9' not found for environment 'x'").
 */
function kindOf(status: number, errorType: string | null, words: string): FleetApiErrorKind {
  // Without names in quotes: an environment may be called "conversion" or "region".
  const said = words.replace(/(?<!\w)'[^']*'(?!\w)/g, "''");
  const has = (...parts: string[]): boolean => parts.every((part) => said.includes(part));
  if (errorType === 'instance_limit_exceeded') return 'instance_limit';
  if (status === 401) return 'authentication';
  if (status === 403 && has('instance limit')) return 'instance_limit';
  if (status === 429 || has('too many in-flight') || has('rate limit')) return 'rate_limit';
  if (status === 403) {
    if (has('team not found')) return 'team_not_found';
    return has('does not have permission', 'environment') ? 'environment_access' : 'permission';
  }
  if (status === 400) {
    if (has('region') && (has('not supported') || has('unsupported'))) return 'region';
    if (/\bversion\b/.test(said) && has('not found')) return 'version_not_found';
    if (has('environment', 'not found') || has('env_key', 'not found')) return 'environment_not_found';
    return 'bad_request';
  }
  if (status === 413 || status === 422) return 'bad_request';
  if (status === 404 || status === 410) return 'not_found';
  if (status === 408) return 'timeout';
  if (status === 409) return 'conflict';
  return status >= 500 ? 'server' : 'api';
}

/** Whether the same call may succeed later: what the body says of it, else its words, else its status. */
function isTransient(
  status: number,
  kind: FleetApiErrorKind,
  words: string,
  retryable: boolean | null,
): boolean {
  if (retryable !== null) return retryable;
  if (lasting.has(kind) || status === 413 || status === 422) return false;
  if (kind === 'instance_limit' || kind === 'rate_limit') return true;
  if (passing.some((part) => words.includes(part))) return true;
  return [408, 425].includes(status) || (status >= 500 && status !== 501 && status !== 505);
}

/** "You have N running instances out of a maximum of M". */
function countsIn(words: string): { running: number | null; limit: number | null } {
  const found = /you have (\d+) running instances? out of a maximum of (\d+)/i.exec(words);
  return {
    running: found?.[1] === undefined ? null : Number(found[1]),
    limit: found?.[2] === undefined ? null : Number(found[2]),
  };
}

/** The error of an answer that is none of 2xx. `call`: method and URL, for the message. */
export function refusal(
  call: string,
  answer: { readonly status: number; readonly retryAfter: string | null; readonly text: string },
  now: number,
): FleetApiError {
  const { status } = answer;
  const body = readErrorBody(answer.text);
  const lower = `${body.words} ${body.error_type ?? ''}`.toLowerCase();
  const kind = kindOf(status, body.error_type, lower);
  const counts = countsIn(body.words);
  const said = body.words === '' ? 'without a word' : body.words;
  return new FleetApiError(`${call} answered ${status}: ${said}`, {
    kind,
    transient: isTransient(status, kind, lower, body.retryable),
    status,
    words: body.words,
    retry_after_ms: retryAfterMs(answer.retryAfter, now),
    running_instances: body.running_instances ?? counts.running,
    instance_limit: body.instance_limit ?? counts.limit,
  });
}
