import type { IncomingMessage } from 'node:http';
import { EgressError } from './refusal.ts';
import { readAbsolute, readAuthority, sameTarget, type Target } from './target.ts';

/** Methods whose body Node writes as it comes when no length announces it. */
const bodiless = new Set(['GET', 'HEAD', 'DELETE', 'OPTIONS', 'TRACE']);

function valuesOf(request: IncomingMessage, name: string): string[] {
  const { rawHeaders } = request;
  return rawHeaders.filter(
    (_value, index) => index % 2 === 1 && rawHeaders[index - 1]?.toLowerCase() === name,
  );
}

function bad(why: string): never {
  throw new EgressError('bad', `the request ${why}`);
}

/**
 * The one place that a request names. A plain request must say the same in its `Host`, as that is what the server behind
 * the address goes by, and its body must be one that ends where this proxy thinks it does: what stands behind its end would
 * be a second request, and nobody would have looked at that one's host.
 *
 * @throws EgressError (bad)
 */
export function targetOf(request: IncomingMessage): Target {
  const { method = '', url = '' } = request;
  if (method === 'CONNECT') return readAuthority(url, null) ?? bad('names no host and port to connect to');
  const target = readAbsolute(url) ?? bad('names no http:// URL without a user');
  const [host, ...more] = valuesOf(request, 'host');
  const named = host === undefined || more.length > 0 ? null : readAuthority(host, 80);
  if (named === null || !sameTarget(named, target))
    bad('must have one Host header, with the host of its URL');
  const [coding, ...others] = valuesOf(request, 'transfer-encoding');
  if (coding !== undefined) {
    if (others.length > 0 || coding.trim().toLowerCase() !== 'chunked')
      bad('may be sent in chunks and in no other coding');
    if (bodiless.has(method)) bad(`is a ${method} with a body in chunks: send its length`);
  }
  return target;
}
