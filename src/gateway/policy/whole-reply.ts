import type { Dispatcher } from 'undici';

/** Status and headers of an answer, and its body as text. */
export interface ReplicaReply {
  readonly status: number;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  readonly text: string;
}

/** A whole answer: bytes, decoded only where somebody asks for the text. */
export class WholeReply implements ReplicaReply {
  readonly status: number;
  readonly headers: ReplicaReply['headers'];
  readonly bytes: Buffer;

  constructor(status: number, headers: ReplicaReply['headers'], bytes: Buffer) {
    this.status = status;
    this.headers = headers;
    this.bytes = bytes;
  }

  get text(): string {
    return this.bytes.toString();
  }
}

/** Bytes of a body as they come: in their place where the length was said, else in pieces. */
class Body {
  readonly #whole: Buffer | null;
  readonly #pieces: Buffer[] = [];
  #size = 0;

  constructor(length: number | null) {
    this.#whole = length === null ? null : Buffer.allocUnsafeSlow(length);
  }

  add(chunk: Buffer): void {
    if (this.#whole === null) this.#pieces.push(chunk);
    else chunk.copy(this.#whole, this.#size);
    this.#size += chunk.length;
  }

  take(): Buffer {
    if (this.#whole !== null) return this.#whole.subarray(0, this.#size);
    return this.#pieces.length === 1 ? this.#pieces[0]! : Buffer.concat(this.#pieces);
  }
}

/**
 * One exchange whose answer is read whole. undici's own `request` makes a stream of it and reads that to its end, which
 * costs more than the exchange itself for a small answer, and copies a large one twice.
 */
export class WholeExchange implements Dispatcher.DispatchHandler {
  readonly answered: Promise<WholeReply>;
  readonly #signal: AbortSignal;
  readonly #lengthLimit: number;
  #resolve!: (reply: WholeReply) => void;
  #reject!: (error: unknown) => void;
  #controller: Dispatcher.DispatchController | null = null;
  #status = 0;
  #headers: ReplicaReply['headers'] = {};
  #body = new Body(null);

  /** `lengthLimit`: bytes of an answer that is read in its place. undici itself refuses longer ones. */
  constructor(signal: AbortSignal, lengthLimit: number) {
    this.#signal = signal;
    this.#lengthLimit = lengthLimit;
    this.answered = new Promise((resolve, reject) => {
      this.#resolve = resolve;
      this.#reject = reject;
    });
    signal.addEventListener('abort', this);
  }

  /** The signal aborted: nobody waits any more, whether or not the request has a connection yet. */
  handleEvent(): void {
    const reason = this.#signal.reason as Error;
    this.#reject(reason);
    this.#controller?.abort(reason);
    this.#end();
  }

  onRequestStart(controller: Dispatcher.DispatchController): void {
    if (this.#signal.aborted) controller.abort(this.#signal.reason as Error);
    else this.#controller = controller;
  }

  onResponseStart(
    _controller: Dispatcher.DispatchController,
    status: number,
    headers: ReplicaReply['headers'],
  ): void {
    if (status < 200) return;
    this.#status = status;
    this.#headers = headers;
    const length = Number(headers['content-length'] ?? NaN);
    if (length <= this.#lengthLimit) this.#body = new Body(length);
  }

  onResponseData(_controller: Dispatcher.DispatchController, chunk: Buffer): void {
    this.#body.add(chunk);
  }

  onResponseEnd(): void {
    this.#end();
    this.#resolve(new WholeReply(this.#status, this.#headers, this.#body.take()));
  }

  onResponseError(_controller: Dispatcher.DispatchController, error: unknown): void {
    this.#end();
    this.#reject(error);
  }

  #end(): void {
    this.#signal.removeEventListener('abort', this);
    this.#controller = null;
  }
}
