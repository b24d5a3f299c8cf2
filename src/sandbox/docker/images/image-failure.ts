import { EpisodeError } from '../../../contracts/index.ts';
import { infraFailure, reasonOf, taskFailure } from '../../sandbox-failure.ts';
import { statusOf } from '../daemon.ts';

/** What could not be brought, in the task's words: `sandbox.image: python:3.11`. */
export interface ImageSubject {
  readonly name: string;
  readonly field: 'sandbox.image' | 'sandbox.build';
}

/** The daemon's own words: without the frame that dockerode puts around them. */
export function daemonWords(error: unknown): string {
  return reasonOf(error).replace(/^\(HTTP code \d+\) (?:unexpected|server error|no such image) - /, '');
}

const boot = { phase: 'boot' } as const;

/**
 * Why an image could not be pulled or built, by the daemon's words (it passes on what a registry said, mostly as status
 * 500). A task can ask for what is not there or not allowed; that a registry, the network or the disk fails is not its doing.
 */
export function imageFailure(error: unknown, { name, field }: ImageSubject): EpisodeError {
  if (error instanceof EpisodeError) return error;
  const why = daemonWords(error);
  const options = { ...boot, cause: error };
  const message = `${field}: ${name}: ${why}`;
  if (/no space left on device/i.test(why)) return infraFailure('disk_full', message, options);
  if (/invalid reference format|invalid tag format|invalid repository name|must be lowercase/i.test(why)) {
    return taskFailure(
      'image_missing',
      `${field}: ${JSON.stringify(name)} is not the name of an image`,
      options,
    );
  }
  if (
    /no such host|dial tcp|connection re(fused|set)|i\/o timeout|tls handshake|unexpected eof|\beof$|server misbehaving|unexpected http status: 5|too ?many ?requests|deadline exceeded|network is unreachable|no route to host|request canceled|proxyconnect/i.test(
      why,
    )
  ) {
    return infraFailure('registry_unreachable', message, options);
  }
  if (/no matching manifest|image operating system .* cannot be used/i.test(why)) {
    return taskFailure('image_unfit', message, options);
  }
  if (/manifest unknown|name unknown|not found|no such image|does not exist/i.test(why)) {
    return taskFailure('image_missing', message, options);
  }
  if (/unauthorized|authentication required|no basic auth|denied|forbidden/i.test(why)) {
    return taskFailure('image_denied', `${message} (docker login on the worker's machine)`, options);
  }
  const status = statusOf(error);
  if (status === undefined && (error as NodeJS.ErrnoException).code !== undefined) {
    return infraFailure('docker_unreachable', `the Docker daemon does not answer (${message})`, options);
  }
  return infraFailure('image_failed', message, options);
}
