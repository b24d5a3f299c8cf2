import { connect, type Socket } from 'node:net';
import { BrokenFrameError, frameType, maxPayload, type Frame } from './frame.ts';

/** Bytes an end may send of a connection before the other has passed some of them on. */
const windowBytes = 256 * 1024;
/** The relay makes no more at once. */
const maxStreams = 256;

/** Sends one numbered frame. */
type Send = (type: number, flag: number, stream: number, payload?: Uint8Array) => void;

export interface StreamsParts {
  readonly send: Send;
  /** Whether nothing more should be sent for now. */
  readonly full: () => boolean;
  /** Where a new connection of the route with this index leads; null: nowhere. */
  readonly targetOf: (route: number) => string | null;
}

interface Stream {
  readonly socket: Socket;
  /** Bytes that may be sent yet. */
  credit: number;
  /** Bytes the other end may send yet. */
  granted: number;
  /** Bytes passed on and not yet granted again. */
  passedOn: number;
  /** Read and beyond the credit. */
  held: Buffer | null;
  endSent: boolean;
  endCame: boolean;
}

/** The worker's connections: one to a socket on this machine for each that was made inside. */
export class Streams {
  readonly #parts: StreamsParts;
  readonly #open = new Map<number, Stream>();
  /** Also those whose last bytes are still on their way to somebody who is slow to read them. */
  readonly #sockets = new Set<Socket>();
  #count = 0;
  #bytesIn = 0;
  #bytesOut = 0;

  constructor(parts: StreamsParts) {
    this.#parts = parts;
  }

  get counts(): { streams: number; open_streams: number; bytes_in: number; bytes_out: number } {
    return {
      streams: this.#count,
      open_streams: this.#open.size,
      bytes_in: this.#bytesIn,
      bytes_out: this.#bytesOut,
    };
  }

  /** A frame of the other end's. Frames of a connection that is over are late, and nobody's any more. */
  take(frame: Frame): void {
    if (frame.type === frameType.open) {
      this.#connect(frame.stream, frame.flag);
      return;
    }
    const stream = this.#open.get(frame.stream);
    if (stream === undefined) return;
    switch (frame.type) {
      case frameType.data:
        this.#pass(frame.stream, stream, frame.payload);
        break;
      case frameType.end:
        stream.endCame = true;
        if (frame.flag === 1) {
          this.#open.delete(frame.stream);
          stream.socket.resume();
          stream.socket.destroySoon();
        } else {
          stream.socket.end();
          this.#settle(frame.stream, stream);
        }
        break;
      case frameType.reset:
        this.#open.delete(frame.stream);
        stream.socket.destroy();
        break;
      case frameType.window:
        if (frame.payload.length !== 4) throw new BrokenFrameError('a window without its size');
        stream.credit += frame.payload.readUInt32BE(0);
        this.#proceed(frame.stream, stream);
        break;
      default:
        throw new BrokenFrameError(`there is no frame of type ${frame.type}`);
    }
  }

  /** Goes on reading, once there is room again. */
  proceed(): void {
    for (const [id, stream] of this.#open) this.#proceed(id, stream);
  }

  /** Breaks every connection: the other end has forgotten them. */
  reset(): void {
    this.#open.clear();
    for (const socket of this.#sockets) socket.destroy();
  }

  #connect(id: number, route: number): void {
    this.#count++;
    const target = this.#parts.targetOf(route);
    if (target === null || this.#sockets.size >= maxStreams || this.#open.has(id)) {
      this.#parts.send(frameType.reset, 0, id);
      return;
    }
    const socket = connect({ path: target, allowHalfOpen: true });
    const stream: Stream = {
      socket,
      credit: windowBytes,
      granted: windowBytes,
      passedOn: 0,
      held: null,
      endSent: false,
      endCame: false,
    };
    this.#open.set(id, stream);
    this.#sockets.add(socket);
    socket.on('data', (chunk: Buffer) => this.#read(id, stream, chunk));
    socket.on('end', () => {
      if (this.#open.get(id) !== stream) return;
      stream.endSent = true;
      this.#parts.send(frameType.end, 0, id);
      this.#settle(id, stream);
    });
    // 'close' follows.
    socket.on('error', () => undefined);
    socket.on('close', () => {
      this.#sockets.delete(socket);
      if (this.#open.get(id) !== stream) return;
      this.#open.delete(id);
      if (!stream.endSent || !stream.endCame) this.#parts.send(frameType.reset, 0, id);
    });
  }

  #pass(id: number, stream: Stream, payload: Buffer): void {
    stream.granted -= payload.length;
    if (stream.granted < 0 || stream.endCame) throw new BrokenFrameError('more was sent than was granted');
    this.#bytesIn += payload.length;
    stream.socket.write(payload, (error) => {
      if (error || this.#open.get(id) !== stream) return;
      stream.passedOn += payload.length;
      if (stream.passedOn < windowBytes / 4) return;
      const grant = Buffer.alloc(4);
      grant.writeUInt32BE(stream.passedOn, 0);
      stream.granted += stream.passedOn;
      stream.passedOn = 0;
      this.#parts.send(frameType.window, 0, id, grant);
    });
  }

  #read(id: number, stream: Stream, chunk: Buffer): void {
    if (this.#open.get(id) !== stream) return;
    stream.held = stream.held === null ? chunk : Buffer.concat([stream.held, chunk]);
    this.#proceed(id, stream);
  }

  /** Sends what is held as far as it may, and reads on when nothing is. */
  #proceed(id: number, stream: Stream): void {
    while (stream.held !== null && stream.credit > 0 && !this.#parts.full()) {
      const part = stream.held.subarray(0, Math.min(stream.credit, maxPayload));
      stream.held = part.length === stream.held.length ? null : stream.held.subarray(part.length);
      stream.credit -= part.length;
      this.#bytesOut += part.length;
      this.#parts.send(frameType.data, 0, id, part);
    }
    if (stream.held !== null || stream.credit === 0 || this.#parts.full()) stream.socket.pause();
    else if (stream.socket.isPaused()) stream.socket.resume();
  }

  /** Both directions were carried to their end. */
  #settle(id: number, stream: Stream): void {
    if (!stream.endSent || !stream.endCame) return;
    this.#open.delete(id);
    stream.socket.destroySoon();
  }
}
