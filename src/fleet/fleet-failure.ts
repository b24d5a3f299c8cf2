import { EpisodeError, type Phase } from '../contracts/index.ts';
import { FleetApiError } from './api/index.ts';

/** The words of an error, on one line. */
export function reasonOf(error: unknown): string {
  return (error instanceof Error ? error.message : String(error)).replace(/\s+/g, ' ').trim();
}

export function infraFailure(
  code: string,
  message: string,
  options: { phase: Phase; retryable?: boolean; cause?: unknown },
): EpisodeError {
  const { phase, retryable = true, cause } = options;
  return new EpisodeError({ class: 'infra', phase, code, message, retryable }, { cause });
}

export function taskFailure(
  code: string,
  message: string,
  options: { phase: Phase; cause?: unknown },
): EpisodeError {
  return new EpisodeError({ class: 'task', phase: options.phase, code, message }, { cause: options.cause });
}

/** The key is at fault, or what it may do: the same for every episode until somebody changes it. */
export function accessFailure(error: FleetApiError, phase: Phase): EpisodeError {
  const what =
    error.kind === 'authentication' ? 'FLEET_API_KEY is not accepted' : 'FLEET_API_KEY does not allow this';
  return infraFailure('fleet_auth', `${what}: ${reasonOf(error)}`, { phase, retryable: false, cause: error });
}

/** What a creation was refused for, whatever status it came with. */
function refusedFor(error: FleetApiError): string | null {
  const words = error.words.toLowerCase();
  if (error.kind === 'region') return 'region_unknown';
  if (error.kind === 'version_not_found') return 'version_unknown';
  if (error.kind === 'environment_not_found') return 'environment_unknown';
  if (error.kind === 'bad_request') return 'environment_refused';
  // Of a creation, 404 can only mean what it asked for.
  if (error.kind === 'not_found' && words.includes('version')) return 'version_unknown';
  if (error.kind === 'not_found' && words.includes('environment')) return 'environment_unknown';
  return null;
}

/** A failed creation as an episode's failure: of the task where nobody can give what it asks for. */
export function createFailure(error: unknown, environment: string): unknown {
  if (!(error instanceof FleetApiError)) return error;
  if (error.isAccess) return accessFailure(error, 'boot');
  const code = error.transient ? null : refusedFor(error);
  const message = `environment ${environment} was not created: ${reasonOf(error)}`;
  if (code !== null) return taskFailure(code, message, { phase: 'boot', cause: error });
  return infraFailure('create_failed', message, {
    phase: 'boot',
    // A page instead of JSON, or a gateway that knows no such path, says nothing of the next time.
    retryable: error.transient || ['malformed', 'not_found', 'conflict'].includes(error.kind),
    cause: error,
  });
}
