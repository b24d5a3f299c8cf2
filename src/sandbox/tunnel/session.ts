import { BrokenFrameError, encodeFrame, headerBytes, type Frame } from './frame.ts';

/** Bytes that may be on their way unacknowledged; past them nothing more is read from any connection. */
const maxUnacknowledged = 2 * 2 ** 20;

/**
 * The numbered frames of one end, over however many channels: what was sent is kept until the other end has it, and what
 * comes is taken in order and once.
 */
export class Session {
  #kept: Buffer[] = [];
  #first = 0;
  #keptBytes = 0;
  #sent = 0;
  #acknowledged = 0;
  #received = 0;

  /** The number of the last frame that came in order. */
  get received(): number {
    return this.#received;
  }

  /** Whether so much is unacknowledged that nothing more should be sent. */
  get full(): boolean {
    return this.#keptBytes >= maxUnacknowledged;
  }

  /** Numbers a frame and keeps it. Gives the bytes to be sent. */
  number(type: number, flag: number, stream: number, payload?: Uint8Array): Buffer {
    const bytes = encodeFrame({
      type,
      flag,
      stream,
      number: ++this.#sent,
      ...(payload === undefined ? {} : { payload }),
    });
    this.#kept.push(bytes);
    this.#keptBytes += bytes.length;
    return bytes;
  }

  /** Takes note of a numbered frame. Throws when one is missing before it or it came already: the channel is at fault. */
  take(frame: Frame): void {
    if (frame.number !== this.#received + 1) {
      throw new BrokenFrameError(`frame ${frame.number} came after frame ${this.#received}`);
    }
    this.#received = frame.number;
  }

  /** The other end has all frames up to `number`. */
  acknowledge(number: number): void {
    if (number > this.#sent) throw new BrokenFrameError(`frame ${number} was acknowledged and never sent`);
    while (this.#acknowledged < number) {
      this.#keptBytes -= this.#kept[this.#first]?.length ?? 0;
      this.#first++;
      this.#acknowledged++;
    }
    // Moved together only now and then, so that an acknowledgement costs no copy of all that is kept.
    if (this.#first * 2 > this.#kept.length) {
      this.#kept = this.#kept.slice(this.#first);
      this.#first = 0;
    }
  }

  /** What has to be sent again over a new channel whose other end has all up to `number`. */
  resume(number: number): readonly Buffer[] {
    this.acknowledge(number);
    return this.#kept.slice(this.#first);
  }

  /** Forgets everything: the other end begins anew. */
  reset(): void {
    this.#kept = [];
    this.#first = 0;
    this.#keptBytes = 0;
    this.#sent = 0;
    this.#acknowledged = 0;
    this.#received = 0;
  }
}

/** What a frame takes of a channel. */
export function frameBytes(frame: Frame): number {
  return headerBytes + frame.payload.length;
}
