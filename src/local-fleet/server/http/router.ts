import type { Exchange } from './exchange.ts';
import { notFound, Refusal } from './refusal.ts';

/** Gives the body of a 200, or throws. `subject` is what the router was asked about. */
export type Handler<Subject = undefined> = (
  exchange: Exchange,
  parameters: Readonly<Record<string, string>>,
  subject: Subject,
) => unknown;

interface Route<Subject> {
  readonly method: string;
  readonly parts: readonly string[];
  readonly handle: Handler<Subject>;
}

function matching(parts: readonly string[], path: readonly string[]): Record<string, string> | null {
  if (parts.length !== path.length) return null;
  const parameters: Record<string, string> = {};
  for (const [index, part] of parts.entries()) {
    const given = path[index] ?? '';
    if (part.startsWith(':')) parameters[part.slice(1)] = given;
    else if (part !== given) return null;
  }
  return parameters;
}

function decode(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    throw notFound();
  }
}

/** Routes written `METHOD /path/:parameter`, tried in order. */
export class Router<Subject = undefined> {
  readonly #routes: readonly Route<Subject>[];

  constructor(routes: Readonly<Record<string, Handler<Subject>>>) {
    this.#routes = Object.entries(routes).map(([pattern, handle]) => {
      const [method = '', path = ''] = pattern.split(' ');
      return { method, parts: path.split('/'), handle };
    });
  }

  /** The handler's answer for this path. Throws 404 or 405 when there is none. */
  async route(exchange: Exchange, path: string, subject: Subject): Promise<unknown> {
    const parts = path.split('/').map(decode);
    let known = false;
    for (const { method, parts: pattern, handle } of this.#routes) {
      const parameters = matching(pattern, parts);
      if (parameters === null) continue;
      if (method === exchange.method) return await handle(exchange, parameters, subject);
      known = true;
    }
    throw known ? new Refusal(405, 'Method Not Allowed') : notFound();
  }
}
