import { McpError } from '@modelcontextprotocol/sdk/types.js';
import { StreamableHTTPError } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { OutOfTime } from './capped.ts';
import { lastWords } from './result-text.ts';
import { wasNeverSent } from '../never-sent.ts';

/**
 * What kept a request from its answer.
 * - `unreachable`: no connection; nothing was sent.
 * - `status`: the HTTP status says it.
 * - `lost`: the request was sent, and the answer was cut off, garbled or never began.
 * - `timeout`: no answer in time.
 * - `rpc`: the server answered with a JSON-RPC error.
 */
export type McpFailureKind = 'unreachable' | 'status' | 'lost' | 'timeout' | 'rpc';

export class McpFailure extends Error {
  readonly kind: McpFailureKind;
  /** HTTP status (`status`), JSON-RPC code (`rpc`), else null. */
  readonly code: number | null;
  /** It happened while the session was being opened, before the request itself. */
  opening = false;
  /** The server does not know the session any more, one that had worked: a new one may help at once. */
  sessionGone = false;

  constructor(kind: McpFailureKind, code: number | null, message: string, options?: { cause?: unknown }) {
    super(message, options);
    this.name = 'McpFailure';
    this.kind = kind;
    this.code = code;
  }

  isStatus(...statuses: readonly number[]): boolean {
    return this.kind === 'status' && this.code !== null && statuses.includes(this.code);
  }

  /**
   * Whether the failure shows that the request was not executed. A 502 or 503 counts: a proxy answers so when it has
   * nobody to pass a request to, which is the rule on an instance that is still coming up. (A proxy that lost its server
   * in the middle of a request answers 502 as well; the two cannot be told apart.) A 500 or 504 may come after the fact.
   */
  get notExecuted(): boolean {
    if (this.opening || this.kind === 'unreachable') return true;
    return this.kind === 'status' && this.code !== null && this.code !== 500 && this.code !== 504;
  }

  /** Whether the same request can succeed later. */
  get passing(): boolean {
    if (this.kind === 'rpc') return this.opening;
    return (
      this.kind !== 'status' || this.sessionGone || this.isStatus(404, 408, 410, 425, 429, 500, 502, 503, 504)
    );
  }
}

/** Marks the answer that the transport makes up for a request whose real one cannot come any more. */
export const answerLost = Symbol('answer lost');

function causes(error: unknown): Error[] {
  const found: Error[] = [];
  for (let cause = error; cause instanceof Error && found.length < 5; cause = cause.cause) found.push(cause);
  return found;
}

function neverReachedIt(chain: readonly Error[]): boolean {
  return chain.some((error) => {
    const { code, syscall } = error as NodeJS.ErrnoException;
    return syscall === 'connect' || (typeof code === 'string' && wasNeverSent(code));
  });
}

/**
 * Any error of the MCP SDK, its transport or the HTTP client as an McpFailure. What a server said is in its message only,
 * with credentials taken out (`redacted`): an error that quotes an answer is not kept as the cause.
 */
export function toMcpFailure(error: unknown, redacted: (text: string) => string): McpFailure {
  const words = (text: string): string => lastWords(redacted(text));
  if (error instanceof McpFailure) return error;
  const options = { cause: error };
  if (error instanceof OutOfTime) {
    return new McpFailure('timeout', null, `no answer within ${Math.ceil(error.ms / 1000)} seconds`, options);
  }
  if (error instanceof McpError) {
    const said = words(error.message.replace(/^MCP error -?\d+: /, ''));
    return error.data === answerLost
      ? new McpFailure('lost', null, said)
      : new McpFailure('rpc', error.code, said);
  }
  if (error instanceof StreamableHTTPError) {
    const said = words(error.message.replace(/^Streamable HTTP error: (Error POSTing to endpoint: )?/, ''));
    // The SDK's -1: an answer of 200 that is neither JSON nor an event stream.
    if (error.code === undefined || error.code < 100) return new McpFailure('lost', null, said);
    return new McpFailure('status', error.code, `HTTP ${error.code}${said && `: ${said}`}`);
  }
  const chain = causes(error);
  const said = chain.map(({ message }) => message).filter((message) => message !== '');
  const message = words([...new Set(said)].join(': ') || String(error));
  return new McpFailure(neverReachedIt(chain) ? 'unreachable' : 'lost', null, message, options);
}
