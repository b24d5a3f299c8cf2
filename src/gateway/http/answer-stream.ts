import type { ServerResponse } from 'node:http';
import type { ChatAnswer, ChatDelta, ChatError } from '../chat.ts';
import type { AnswerEncoder, Dialect, DialectCall } from '../dialects/dialect.ts';
import { logStart, type DeltaLog, type LogPlace } from './delta-log.ts';

export interface StreamTiming {
  /** Headers of a stream are withheld this long, so that an error keeps its real status. */
  readonly withholdMs: number;
  /** Between two pings of a stream whose headers are out and that has nothing to say. */
  readonly pingMs: number;
}

/**
 * One client's stream. Its headers go out with the first part of the answer, or after a while without one; from then on
 * pings keep it alive. A client that does not read is told nothing more until it does: what it missed stands in the log.
 */
export class AnswerStream implements Disposable {
  readonly #response: ServerResponse;
  readonly #dialect: Dialect;
  readonly #call: DialectCall;
  readonly #encoder: AnswerEncoder | null;
  readonly #log: DeltaLog;
  readonly #pingMs: number;
  readonly #listening: Disposable;
  #timer: NodeJS.Timeout;
  /** Said since the last look. */
  #spoke = false;
  /** Events that one write takes together: those of one read from the policy. */
  #pending = '';
  /** Where the client's reading stands in the log; null when it keeps pace. */
  #behind: LogPlace | null = null;
  readonly #catchUp = (): void => {
    if (this.#behind === null || this.#response.writableEnded) return;
    this.#pending += this.#missed();
    if (this.#pending !== '') this.#flush();
  };

  constructor(
    response: ServerResponse,
    dialect: Dialect,
    call: DialectCall,
    log: DeltaLog,
    { withholdMs, pingMs }: StreamTiming,
  ) {
    this.#response = response;
    this.#dialect = dialect;
    this.#call = call;
    this.#encoder = dialect.encoder(call);
    this.#log = log;
    this.#pingMs = pingMs;
    this.#timer = setTimeout(() => {
      this.#begin();
      response.write(dialect.ping);
    }, withholdMs);
    this.#listening = log.listen((delta) => this.#take(delta));
    response.on('drain', this.#catchUp);
    // A client that attaches to a call in flight reads first what came before it.
    this.#behind = logStart;
    this.#catchUp();
  }

  /** Whether its headers are out. */
  get begun(): boolean {
    return this.#response.headersSent;
  }

  end(answer: ChatAnswer): void {
    this.#begin();
    const rest = this.#pending + this.#missed();
    this.#pending = '';
    this.#response.end(rest + (this.#encoder?.end(answer) ?? this.#dialect.stream(this.#call, answer)));
  }

  /** Ends a stream whose headers are out. */
  fail(error: ChatError): void {
    const told = this.#pending;
    this.#pending = '';
    this.#response.end(told + this.#dialect.streamError(error));
  }

  #take(delta: ChatDelta): void {
    if (this.#encoder === null || this.#behind !== null) return;
    // Written once all that came with it is told, too.
    if (this.#pending === '') queueMicrotask(() => this.#flush());
    this.#pending += this.#encoder.delta(delta);
  }

  /** What the client missed, as events; it keeps pace from here on. */
  #missed(): string {
    const encoder = this.#encoder;
    const behind = this.#behind;
    this.#behind = null;
    if (encoder === null || behind === null) return '';
    return this.#log
      .since(behind)
      .map((delta) => encoder.delta(delta))
      .join('');
  }

  #flush(): void {
    const events = this.#pending;
    if (events === '' || this.#response.destroyed) return;
    this.#pending = '';
    this.#begin();
    this.#spoke = true;
    if (!this.#response.write(events)) this.#behind = this.#log.end;
  }

  #begin(): void {
    if (this.#response.headersSent) return;
    this.#response.writeHead(200, {
      'content-type': 'text/event-stream; charset=utf-8',
      'cache-control': 'no-cache',
    });
    clearTimeout(this.#timer);
    this.#timer = setInterval(() => {
      if (!this.#spoke && !this.#response.writableNeedDrain) this.#response.write(this.#dialect.ping);
      this.#spoke = false;
    }, this.#pingMs);
  }

  [Symbol.dispose](): void {
    clearTimeout(this.#timer);
    this.#listening[Symbol.dispose]();
    this.#response.off('drain', this.#catchUp);
  }
}
