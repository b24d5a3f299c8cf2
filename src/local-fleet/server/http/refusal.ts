/** What the server answers instead of serving: `{"detail": ...}` under a status, in the service's own words. */
export class Refusal extends Error {
  readonly status: number;
  readonly detail: unknown;
  readonly headers: Readonly<Record<string, string>>;

  constructor(status: number, detail: unknown, headers: Readonly<Record<string, string>> = {}) {
    super(typeof detail === 'string' ? detail : JSON.stringify(detail));
    this.name = 'Refusal';
    this.status = status;
    this.detail = detail;
    this.headers = headers;
  }
}

/** The proxy in front of an instance found nobody behind it: 502 with a page for people. */
export class BadGateway extends Error {
  constructor() {
    super('502 Bad Gateway');
    this.name = 'BadGateway';
  }
}

/** The connection ends without an answer. */
export class ConnectionCut extends Error {
  constructor() {
    super('the connection was cut');
    this.name = 'ConnectionCut';
  }
}

export const notFound = (): Refusal => new Refusal(404, 'Not Found');

/** A body or parameter that does not fit: 422 with one entry a fault, as FastAPI writes them. */
export function unprocessable(
  where: 'body' | 'query',
  issues: readonly {
    readonly path: readonly PropertyKey[];
    readonly message: string;
    readonly code: string;
  }[],
): Refusal {
  return new Refusal(
    422,
    issues.map(({ path, message, code }) => ({
      type: code,
      loc: [where, ...path.map((part) => (typeof part === 'symbol' ? String(part) : part))],
      msg: message,
    })),
  );
}
