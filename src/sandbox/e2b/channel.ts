import type { Sandbox as E2bApi } from 'e2b';
import type { Logger } from '../../observe/index.ts';
import { infraFailure, reasonOf } from '../sandbox-failure.ts';
import { encodeMessage, type Message } from './frames.ts';
import { Line, type LineEnd } from './line.ts';

export interface ChannelTimings {
  /** Milliseconds in which a line has to be answered. */
  readonly start: number;
  /** Milliseconds without a word after which the hand is asked for one. */
  readonly ping: number;
  /** Milliseconds without a word after which the line counts as broken. */
  readonly silence: number;
  /** Milliseconds in which a line that broke has to stand again. */
  readonly reopen: number;
  /** Characters of one line after which another takes its place. */
  readonly renewAfter: number;
}

export const channelTimings: ChannelTimings = Object.freeze({
  start: 30_000,
  ping: 10_000,
  silence: 30_000,
  reopen: 60_000,
  renewAfter: 16 * 2 ** 20,
});

export interface ChannelParts {
  readonly api: E2bApi;
  /** Name of the hand: one a sandbox. */
  readonly name: string;
  /** Whether the provider says that the sandbox does not run any more. Never rejects. */
  readonly isGone: () => Promise<boolean>;
  readonly log: Logger;
  readonly timings: ChannelTimings;
}

/** Who hears of one command. */
export interface CommandEar {
  data(stream: 'out' | 'err', bytes: Buffer): void;
  room(bytes: number): void;
  /** `null`: the sandbox is gone. */
  exit(header: Message['header'] | null): void;
}

interface Kept {
  readonly n: number;
  readonly header: Message['header'];
  readonly body: Uint8Array | undefined;
}

const batchBytes = 256 * 1024;
const ackEveryBytes = 128 * 1024;
const handDied = 5;

/** The first line could not be opened; `exit`: the exit code of what was started inside, where it ended by itself. */
export class ChannelError extends Error {
  readonly exit: number | null;
  constructor(message: string, exit: number | null, options?: { cause?: unknown }) {
    super(message, options);
    this.name = 'ChannelError';
    this.exit = exit;
  }
}

/**
 * The way to the hand inside, over lines that may break: messages are numbered and kept until the other side has them, so
 * that none is lost or heard twice. What cannot be opened again in time, or whose sandbox is gone, is `lost`.
 */
export class Channel implements AsyncDisposable {
  readonly #parts: ChannelParts;
  readonly #ears = new Map<number, CommandEar>();
  readonly #lost = new AbortController();
  #line: Line | null = null;
  #kept: Kept[] = [];
  /** Of what is kept, how many went over the line that stands. */
  #sent = 0;
  #control: Message['header'][] = [];
  #next = 1;
  #nextCommand = 1;
  #got = 0;
  #unsaid = 0;
  #boot: string | undefined;
  #greeted: (() => void) | undefined;
  #heardAt = performance.now();
  #pinged = false;
  #pumping = false;
  #connecting: Promise<void> | null = null;
  #closed = false;
  #watch: NodeJS.Timeout | undefined;
  /** Times the line broke and stood again. */
  reopened = 0;

  private constructor(parts: ChannelParts) {
    this.#parts = parts;
  }

  /** Rejects with ChannelError, or what the SDK says. */
  static async open(parts: ChannelParts): Promise<Channel> {
    const channel = new Channel(parts);
    await channel.#connect();
    channel.#watch = setInterval(() => channel.#look(), parts.timings.ping / 2);
    channel.#watch.unref();
    return channel;
  }

  /** Aborted with an EpisodeError when the sandbox is gone. */
  get lost(): AbortSignal {
    return this.#lost.signal;
  }

  /** Starts a command; gives its number. Throws when the sandbox is gone. */
  start(header: Message['header'], ear: CommandEar): number {
    this.#lost.signal.throwIfAborted();
    const id = this.#nextCommand++;
    this.#ears.set(id, ear);
    this.send({ ...header, op: 'start', id });
    return id;
  }

  /** Sends a message that arrives for as long as there is a sandbox. */
  send(header: Message['header'], body?: Uint8Array): void {
    if (this.#lost.signal.aborted) return;
    this.#kept.push({ n: this.#next, header: { ...header, n: this.#next }, body });
    this.#next += 1;
    void this.#pump();
  }

  /** The sandbox is gone, or is to be: nothing is sent or heard from now on. */
  lose(message: string): void {
    if (this.#lost.signal.aborted) return;
    clearInterval(this.#watch);
    this.#lost.abort(infraFailure('sandbox_gone', message));
    this.#line?.break();
    this.#line = null;
    this.#kept = [];
    const ears = [...this.#ears.values()];
    this.#ears.clear();
    for (const ear of ears) ear.exit(null);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#closed = true;
    this.lose('the sandbox is gone: it was disposed');
    await this.#connecting?.catch(() => undefined);
  }

  /** Opens a line and makes it the one that is used. */
  async #connect(): Promise<void> {
    let line: Line | undefined;
    let timer: NodeJS.Timeout | undefined;
    const { api, name, timings } = this.#parts;
    try {
      const greeting = new Promise<void>((resolve) => (this.#greeted = resolve));
      line = await Line.open(api, name, timings.start, (messages) => this.#hear(messages));
      const late = new Promise<never>((_resolve, reject) => {
        timer = setTimeout(
          () => reject(new ChannelError('a command inside did not answer', null)),
          timings.start,
        );
      });
      const ended = line.ended.then(({ error, exit }: LineEnd) => {
        throw new ChannelError(error?.message ?? 'a command inside ended at once', exit, { cause: error });
      });
      ended.catch(() => undefined);
      const said = line.send(encodeMessage({ op: 'hello', a: this.#got }));
      await Promise.race([Promise.all([said, greeting]), late, ended]);
    } catch (error) {
      line?.break();
      throw error;
    } finally {
      clearTimeout(timer);
      this.#greeted = undefined;
    }
    if (this.#closed) {
      line.break();
      return;
    }
    const before = this.#line;
    this.#line = line;
    before?.break();
    this.#sent = 0;
    this.#pinged = false;
    const opened = line;
    void opened.ended.then(({ error }) => this.#broke(opened, error));
    void this.#pump();
  }

  #broke(line: Line, error: unknown): void {
    line.break();
    if (line !== this.#line) return;
    this.#line = null;
    if (this.#closed || this.#lost.signal.aborted) return;
    this.#parts.log.debug({ why: reasonOf(error) }, 'the line to a sandbox broke');
    this.#reopen();
  }

  /** Opens another line, one at a time, for as long as it may take. */
  #reopen(): void {
    this.#connecting ??= this.#reopening().finally(() => {
      this.#connecting = null;
      // The new one may have broken while this came to its end.
      if (this.#line === null && !this.#closed && !this.#lost.signal.aborted) this.#reopen();
    });
  }

  async #reopening(): Promise<void> {
    const deadline = performance.now() + this.#parts.timings.reopen;
    for (let pause = 50; ; pause = Math.min(pause * 2, 2_000)) {
      try {
        await this.#connect();
        this.reopened += 1;
        return;
      } catch (error) {
        if (this.#closed || this.#lost.signal.aborted) return;
        const why = reasonOf(error);
        if (error instanceof ChannelError && error.exit === handDied) {
          return this.lose('the sandbox is gone: what runs its commands was killed');
        }
        if (await this.#parts.isGone())
          return this.lose(`the sandbox is gone: E2B does not run it any more (${why})`);
        if (performance.now() > deadline) {
          return this.lose(
            `the sandbox is gone: it did not answer for ${this.#parts.timings.reopen / 1000} s (${why})`,
          );
        }
        await new Promise((resolve) => setTimeout(resolve, pause));
      }
    }
  }

  #look(): void {
    const silent = performance.now() - this.#heardAt;
    const { ping, silence } = this.#parts.timings;
    const line = this.#line;
    if (line === null || silent < ping) return;
    if (silent > silence && this.#pinged) this.#broke(line, new Error(`silent for ${Math.round(silent)} ms`));
    else if (!this.#pinged) {
      this.#pinged = true;
      this.#control.push({ op: 'ping' });
      void this.#pump();
    }
  }

  #hear(messages: readonly Message[]): void {
    if (this.#lost.signal.aborted) return;
    this.#heardAt = performance.now();
    this.#pinged = false;
    for (const { header, body } of messages) {
      const { n, a, op } = header as { n?: number; a: number; op: string };
      const had = this.#kept.findIndex((kept) => kept.n > a);
      const dropped = had === -1 ? this.#kept.length : had;
      this.#kept.splice(0, dropped);
      this.#sent = Math.max(0, this.#sent - dropped);
      if (op === 'hello') this.#onHello(header);
      if (n === undefined || n <= this.#got) continue;
      if (n !== this.#got + 1) throw new Error('a message is missing');
      this.#got = n;
      this.#unsaid += body.length + 256;
      this.#onMessage(header, body);
    }
    if (this.#unsaid >= ackEveryBytes) {
      this.#control.push({ op: 'ack' });
      void this.#pump();
    }
    if ((this.#line?.received ?? 0) > this.#parts.timings.renewAfter) this.#reopen();
  }

  #onHello({ boot }: Message['header']): void {
    if (this.#boot !== undefined && this.#boot !== boot) {
      this.lose('the sandbox is gone: what runs its commands is another one');
      return;
    }
    this.#boot = boot as string;
    this.#greeted?.();
  }

  #onMessage(header: Message['header'], body: Buffer): void {
    const { id, op } = header as { id: number; op: string };
    const ear = this.#ears.get(id);
    if (op === 'data') ear?.data(header['s'] as 'out' | 'err', body);
    else if (op === 'room') ear?.room(header['bytes'] as number);
    else if (op === 'exit') {
      this.#ears.delete(id);
      ear?.exit(header);
    }
  }

  /** Sends what waits, many messages at a time, in their order. */
  async #pump(): Promise<void> {
    if (this.#pumping) return;
    this.#pumping = true;
    try {
      for (;;) {
        const line = this.#line;
        if (line === null || (this.#control.length === 0 && this.#sent >= this.#kept.length)) return;
        const parts = this.#control.splice(0).map((header) => encodeMessage({ ...header, a: this.#got }));
        let bytes = 0;
        while (this.#sent < this.#kept.length && bytes < batchBytes) {
          const { header, body } = this.#kept[this.#sent++]!;
          const part = encodeMessage({ ...header, a: this.#got }, body);
          bytes += part.length;
          parts.push(part);
        }
        this.#unsaid = 0;
        try {
          await line.send(Buffer.concat(parts));
        } catch (error) {
          this.#broke(line, error);
        }
      }
    } finally {
      this.#pumping = false;
    }
  }
}
