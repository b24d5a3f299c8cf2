import { randomBytes } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import { infraFailure, reasonOf } from '../sandbox-failure.ts';
import type { SandboxProcess } from '../sandbox.ts';
import { encodeFrame, frameType, FrameReader, type Frame } from './frame.ts';
import { attachCommand, type RelayPlace } from './start-relay.ts';

/** Bytes of one write, so that a provider that sends stdin in requests of its own has a bound. */
const maxWrite = 64 * 1024;
/** How long the command may take to leave once its stdin ended, and how long killing it may take. */
const leaveMs = 2_000;
const killMs = 15_000;

export interface ChannelOptions {
  readonly pingMs: number;
  readonly silenceMs: number;
  readonly signal: AbortSignal;
  /** What the relay is told first, one fact a line. */
  readonly hello: readonly string[];
}

/** The relay's answer to the first frame. */
export interface RelayHello {
  readonly session: string;
  /** Number of the last frame it has. */
  readonly received: number;
}

/** A channel broke before the relay answered; `exitCode` is that of the command, when it ended by itself. */
export class AttachError extends Error {
  override readonly name = 'AttachError';
  readonly exitCode: number | null;
  constructor(message: string, exitCode: number | null) {
    super(message);
    this.exitCode = exitCode;
  }
}

/** Starts the command; one that starts only after the signal is killed. */
async function spawnBefore(place: RelayPlace, marker: string, signal: AbortSignal): Promise<SandboxProcess> {
  signal.throwIfAborted();
  const spawning = place.host.spawn(attachCommand(place.directory, marker), { user: 'root', cwd: '/' });
  let onAbort: (() => void) | undefined;
  const aborted = new Promise<never>((_resolve, reject) => {
    onAbort = () => reject(signal.reason as Error);
    signal.addEventListener('abort', onAbort, { once: true });
  });
  try {
    return await Promise.race([spawning, aborted]);
  } catch (error) {
    void spawning.then((late) => late.kill()).catch(() => undefined);
    throw error;
  } finally {
    if (onAbort !== undefined) signal.removeEventListener('abort', onAbort);
  }
}

/** One command inside whose stdin and stdout lead to the relay. It breaks once; then another takes its place. */
export class Channel {
  readonly #process: SandboxProcess;
  readonly #reader: FrameReader;
  readonly #options: ChannelOptions;
  readonly #timer: NodeJS.Timeout;
  readonly #outgoing: Buffer[] = [];
  #writing = false;
  #heardAt = Date.now();
  #asked = false;
  /** Frames that came before somebody takes them. */
  readonly #early: Frame[] = [];
  #take: (frame: Frame) => void = (frame) => this.#early.push(frame);
  #onBroken: (why: string) => void = () => undefined;
  #isBroken = false;
  /** Resolves with the reason once the channel is of no use any more. */
  readonly broken: Promise<string>;
  /** Resolves when the command has left, or would not. Never rejects. */
  readonly left: Promise<void>;

  private constructor(process: SandboxProcess, marker: Buffer, options: ChannelOptions) {
    this.#process = process;
    this.#options = options;
    this.#reader = new FrameReader(marker);
    this.broken = new Promise((resolve) => {
      this.#onBroken = resolve;
    });
    this.left = this.broken.then(async () => this.#leave());
    process.stdout.on('data', (chunk: Buffer) => this.#got(chunk));
    process.stderr.resume();
    for (const stream of [process.stdin, process.stdout, process.stderr]) {
      stream.on('error', (error) => this.break(reasonOf(error)));
    }
    void process.exited.then((code) => this.break(`its command ended with ${String(code)}`));
    this.#timer = setInterval(() => this.#listen(), Math.max(10, options.pingMs / 4));
    this.#timer.unref();
  }

  /** Opens a channel to a relay that runs. Rejects with AttachError, what `spawn` throws, or the signal's reason. */
  static async open(
    place: RelayPlace,
    options: ChannelOptions,
  ): Promise<{ channel: Channel; hello: RelayHello }> {
    const marker = randomBytes(16).toString('hex');
    const process = await spawnBefore(place, marker, options.signal);
    const errors: Buffer[] = [];
    process.stderr.once('data', (chunk: Buffer) => errors.push(chunk));
    const channel = new Channel(process, Buffer.from(marker), options);
    try {
      const hello = await channel.#greet(Buffer.from(marker), async (why) => {
        const code = await Promise.race([process.exited, delay(leaveMs, null, { ref: false })]);
        return new AttachError(`${why}: ${reasonOf(Buffer.concat(errors).toString())}`.slice(0, 500), code);
      });
      return { channel, hello };
    } catch (error) {
      // Where it can still be told, nobody will come back to this relay.
      channel.close(encodeFrame({ type: frameType.bye, flag: 0, stream: 0, number: 0 }));
      throw error;
    }
  }

  /** Gives every frame from now on to `take`; the channel breaks when it throws. */
  onFrame(take: (frame: Frame) => void): void {
    this.#take = take;
    try {
      for (const frame of this.#early.splice(0)) take(frame);
    } catch (error) {
      this.break(reasonOf(error));
    }
  }

  write(bytes: Buffer): void {
    if (this.#isBroken) return;
    this.#outgoing.push(bytes);
    if (this.#writing) return;
    this.#writing = true;
    // What else is sent in this turn goes with it.
    queueMicrotask(() => this.#flush());
  }

  /** Gives the channel up. */
  break(why: string): void {
    if (this.#isBroken) return;
    this.#isBroken = true;
    clearInterval(this.#timer);
    this.#onBroken(why);
  }

  /** Says a last word and gives the channel up. */
  close(last: Buffer): void {
    if (!this.#isBroken) this.#process.stdin.write(Buffer.concat([...this.#outgoing, last]));
    this.break('it was closed');
  }

  async #greet(marker: Buffer, failed: (why: string) => Promise<AttachError>): Promise<RelayHello> {
    const { signal, hello, silenceMs } = this.#options;
    let timer: NodeJS.Timeout | undefined;
    let onAbort: (() => void) | undefined;
    try {
      return await new Promise<RelayHello>((resolve, reject) => {
        this.#take = (frame) => {
          this.#take = (next) => this.#early.push(next);
          const text = frame.payload.toString();
          const [, session, received] = /^session ([0-9a-f]+)\nreceived (\d+)$/.exec(text) ?? [];
          if (session !== undefined) resolve({ session, received: Number(received) });
          else
            reject(infraFailure('tunnel_failed', `the tunnel's relay: ${reasonOf(text)}`, { phase: 'boot' }));
        };
        void this.broken.then(async (why) => reject(await failed(why)));
        timer = setTimeout(() => this.break(`no answer in ${silenceMs} ms`), silenceMs);
        onAbort = () => reject(signal.reason as Error);
        if (signal.aborted) onAbort();
        else signal.addEventListener('abort', onAbort, { once: true });
        this.write(marker);
        this.write(
          encodeFrame({
            type: frameType.hello,
            flag: 0,
            stream: 0,
            number: 0,
            payload: Buffer.from(hello.join('\n')),
          }),
        );
      });
    } finally {
      clearTimeout(timer);
      if (onAbort !== undefined) signal.removeEventListener('abort', onAbort);
    }
  }

  #got(chunk: Buffer): void {
    if (this.#isBroken) return;
    this.#heardAt = Date.now();
    this.#asked = false;
    try {
      for (const frame of this.#reader.push(chunk)) {
        if (this.#isBroken) return;
        this.#take(frame);
      }
    } catch (error) {
      this.break(reasonOf(error));
    }
  }

  #listen(): void {
    const silent = Date.now() - this.#heardAt;
    if (silent > this.#options.silenceMs) {
      this.break(`nothing came for ${silent} ms`);
    } else if (silent > this.#options.pingMs && !this.#asked) {
      this.#asked = true;
      this.write(encodeFrame({ type: frameType.ping, flag: 0, stream: 0, number: 0 }));
    }
  }

  #flush(): void {
    if (this.#isBroken || this.#outgoing.length === 0) {
      this.#writing = false;
      return;
    }
    const all = this.#outgoing.length === 1 ? this.#outgoing[0] : Buffer.concat(this.#outgoing);
    this.#outgoing.length = 0;
    if (all === undefined) return;
    const part = all.subarray(0, maxWrite);
    if (part.length < all.length) this.#outgoing.push(all.subarray(maxWrite));
    this.#process.stdin.write(part, () => this.#flush());
  }

  /** The command leaves when its stdin ends; what does not is killed. */
  async #leave(): Promise<void> {
    const { stdin, stdout, exited } = this.#process;
    stdin.end();
    stdout.resume();
    const left = exited.then(() => true);
    if (await Promise.race([left, delay(leaveMs, false, { ref: false })])) return;
    await Promise.race([
      this.#process.kill().catch(() => undefined),
      delay(killMs, undefined, { ref: false }),
    ]);
  }
}
