import { subscribe, unsubscribe } from 'node:diagnostics_channel';

/** What undici says when the head of an answer came (Node.js docs, undici: diagnostics channel). */
interface HeadersMessage {
  readonly request: { readonly method: string; readonly path: string; readonly origin: unknown };
  readonly response: { readonly statusCode: number; readonly headers: readonly unknown[] };
}

const channel = 'undici:request:headers';

/**
 * Hears the `Retry-After` of refused creations, which the SDK gives to nobody: without one, the limit on sandboxes at once
 * was met; with one, creations came too fast (facts: E2B 2.8).
 */
export class RetryAfterEar implements Disposable {
  readonly #origin: string;
  #last: number | null = null;
  readonly #listener = (message: unknown): void => {
    const { request, response } = message as HeadersMessage;
    if (response.statusCode !== 429 || request.method !== 'POST' || !request.path.endsWith('/sandboxes'))
      return;
    if (String(request.origin) !== this.#origin) return;
    const words = response.headers.map(String);
    const at = words.findIndex((word, index) => index % 2 === 0 && word.toLowerCase() === 'retry-after');
    const seconds = at === -1 ? NaN : Number(words[at + 1]);
    this.#last = Number.isFinite(seconds) && seconds >= 0 ? seconds * 1000 : null;
  };

  constructor(apiUrl: string) {
    this.#origin = new URL(apiUrl).origin;
    subscribe(channel, this.#listener);
  }

  /** Milliseconds that the last refused creation was asked to wait; null when it was not. */
  take(): number | null {
    const last = this.#last;
    this.#last = null;
    return last;
  }

  [Symbol.dispose](): void {
    unsubscribe(channel, this.#listener);
  }
}
