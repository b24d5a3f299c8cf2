import type { Answer } from './answers.ts';
import type { LiveSandbox } from './live-sandbox.ts';

const defaultLimit = 100;

/** `metadata=` holds `key=value&…` whose names and values the SDK encoded once more. */
function metadataAsked(text: string): [string, string][] {
  return [...new URLSearchParams(text)].map(([key, value]) => [
    decodeURIComponent(key),
    decodeURIComponent(value),
  ]);
}

/** Those that a query asks for; newest first unless it says otherwise. */
export function sandboxesAsked(all: readonly LiveSandbox[], query: URLSearchParams): LiveSandbox[] {
  const metadata = metadataAsked(query.get('metadata') ?? '');
  const states = query.getAll('state').flatMap((text) => text.split(','));
  const template = query.get('template');
  const after = query.get('startedAfter');
  const found = all.filter(
    (sandbox) =>
      metadata.every(([key, value]) => sandbox.metadata[key] === value) &&
      (states.length === 0 || states.includes(sandbox.state)) &&
      (template === null || sandbox.templateID === template || sandbox.alias === template) &&
      (after === null || sandbox.startedAt > Date.parse(after)),
  );
  const direction = query.get('order') === 'asc' ? 1 : -1;
  return found.sort(
    (a, b) => direction * (a.startedAt - b.startedAt || (a.sandboxID < b.sandboxID ? -1 : 1)),
  );
}

/** One page; the next one's token is in the header `X-Next-Token`. */
export function pageOf(all: readonly unknown[], query: URLSearchParams): Answer {
  const limit = Math.min(defaultLimit, Number(query.get('limit') ?? defaultLimit));
  const token = query.get('nextToken');
  const from = token === null ? 0 : Number(Buffer.from(token, 'base64url').toString());
  const to = from + limit;
  return {
    status: 200,
    body: all.slice(from, to),
    headers: to < all.length ? { 'x-next-token': Buffer.from(String(to)).toString('base64url') } : {},
  };
}
