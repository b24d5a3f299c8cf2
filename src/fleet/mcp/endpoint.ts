import type { Dispatcher } from 'undici';
import { capped } from './capped.ts';
import { toMcpFailure } from './mcp-failure.ts';
import { withoutSecrets } from './result-text.ts';
import { Session } from './session.ts';
import type { McpTimings } from './timings.ts';

export interface EndpointOptions {
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly dispatcher: Dispatcher;
  readonly timings: McpTimings;
}

type Operation<T> = (session: Session, ms: number, signal: AbortSignal) => Promise<T>;

/**
 * One MCP endpoint of an environment and the session that is kept open to it: opened by the first operation, shared by
 * all, and replaced after a failure that leaves it in doubt. A replaced one ends when its last operation did.
 */
export class Endpoint implements AsyncDisposable {
  /** How messages name it: its path. */
  readonly name: string;
  /** Sessions opened in place of one that had broken. */
  reopened = 0;
  readonly #options: EndpointOptions;
  readonly #closed = new AbortController();
  readonly #redacted: (text: string) => string;
  #session: Session | null = null;
  #opening: Promise<Session> | null = null;
  #opened = 0;
  readonly #ending = new Set<Promise<void>>();

  constructor(options: EndpointOptions) {
    this.#options = options;
    this.name = new URL(options.url).pathname;
    this.#redacted = withoutSecrets(options.headers);
  }

  /**
   * Runs one operation within `ms`, the opening of a session included. Rejects with McpFailure, or with the signal's
   * reason at once.
   */
  async run<T>(operation: Operation<T>, ms: number, signal: AbortSignal): Promise<T> {
    const cap = Math.min(ms, this.#options.timings.operation_ms);
    const deadline = performance.now() + cap;
    const session = await this.#openSession(cap, signal);
    session.inFlight++;
    try {
      const left = Math.max(1, deadline - performance.now());
      const answer = await operation(session, left, signal);
      session.proven = true;
      return answer;
    } catch (error) {
      if (signal.aborted) {
        this.#retire(session);
        throw signal.reason;
      }
      const failure = toMcpFailure(error, this.#redacted);
      if (failure.isStatus(400, 404, 410) && session.id !== null) {
        session.unknownToServer = true;
        failure.sessionGone = session.proven;
      }
      if (session.unknownToServer || failure.kind === 'lost' || failure.kind === 'timeout') {
        this.#retire(session);
      }
      throw failure;
    } finally {
      session.inFlight--;
      if (session.stale && session.inFlight === 0) this.#end(session);
    }
  }

  async #openSession(ms: number, signal: AbortSignal): Promise<Session> {
    this.#closed.signal.throwIfAborted();
    if (this.#session !== null) return this.#session;
    // It belongs to all who wait for it: one that leaves does not take it along.
    const opening = (this.#opening ??= this.#open().finally(() => {
      this.#opening = null;
    }));
    opening.catch(() => undefined);
    try {
      return await capped(ms, signal, () => opening);
    } catch (error) {
      signal.throwIfAborted();
      const failure = toMcpFailure(error, this.#redacted);
      failure.opening = true;
      throw failure;
    }
  }

  async #open(): Promise<Session> {
    const { url, headers, dispatcher, timings } = this.#options;
    const session = await Session.open(
      { url: new URL(url), headers, dispatcher, closeMs: timings.close_ms },
      timings.operation_ms,
      this.#closed.signal,
    );
    if (this.#opened++ > 0) this.reopened++;
    this.#session = session;
    return session;
  }

  /** No new operation uses it; those on their way are left alone. */
  #retire(session: Session): void {
    session.stale = true;
    if (this.#session === session) this.#session = null;
  }

  #end(session: Session): void {
    const ending = session[Symbol.asyncDispose]().finally(() => this.#ending.delete(ending));
    this.#ending.add(ending);
  }

  /** Ends its sessions, also one that is just being opened. */
  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#opening !== null) {
      // One cut off now would stay on the server, which may have made it already.
      await capped(this.#options.timings.close_ms, new AbortController().signal, () =>
        Promise.resolve(this.#opening),
      ).catch(() => undefined);
    }
    this.#closed.abort(new Error('the tools of this environment are closed'));
    await Promise.allSettled([this.#opening]);
    if (this.#session !== null) {
      this.#end(this.#session);
      this.#session = null;
    }
    await Promise.allSettled(this.#ending);
  }
}
