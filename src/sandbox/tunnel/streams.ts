import type { Socket } from 'node:net';
import { connectTarget } from './connect-target.ts';
import { BrokenFrameError, frameType, maxPayload, type Frame } from './frame.ts';

/** Bytes an end may send of a connection before the other has passed some of them on. */
const windowBytes = 256 * 1024;
/** The relay has at most 256 at once; those that it has closed may still have bytes to deliver here. */
const maxStreams = 1024;

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
  /** null until it is connected. */
  socket: Socket | null;
  /** Frames that came before that. */
  readonly early: Frame[];
  /** Bytes that may be sent yet. */
  credit: number;
  /** Bytes the other end may send yet. */
  granted: number;
  /** Bytes passed on and not yet granted again. */
  passedOn: number;
  /** Read and beyond the credit. */
  held: Buffer | null;
  /** The socket has nothing more to say; what is held goes first. */
  ended: boolean;
  /** The socket takes nothing more. */
  deaf: boolean;
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
    if (frame.type === frameType.data) {
      stream.granted -= frame.payload.length;
      if (stream.granted < 0 || stream.endCame) throw new BrokenFrameError('more was sent than was granted');
    }
    this.#give(frame, stream);
  }

  #give(frame: Frame, stream: Stream): void {
    const { socket } = stream;
    if (socket === null) {
      if (frame.type === frameType.reset) this.#open.delete(frame.stream);
      else stream.early.push(frame);
      return;
    }
    switch (frame.type) {
      case frameType.data:
        this.#pass(frame.stream, stream, socket, frame.payload);
        break;
      case frameType.end:
        stream.endCame = true;
        if (frame.flag === 1) {
          this.#open.delete(frame.stream);
          socket.resume();
          socket.destroySoon();
        } else {
          socket.end();
          this.#settle(frame.stream, stream);
        }
        break;
      case frameType.reset:
        this.#open.delete(frame.stream);
        socket.destroy();
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
    if (target === null || this.#open.has(id) || this.#open.size + this.#sockets.size >= maxStreams) {
      this.#parts.send(frameType.reset, 0, id);
      return;
    }
    const stream: Stream = {
      socket: null,
      early: [],
      credit: windowBytes,
      granted: windowBytes,
      passedOn: 0,
      held: null,
      ended: false,
      deaf: false,
      endSent: false,
      endCame: false,
    };
    this.#open.set(id, stream);
    connectTarget(target, () => this.#open.get(id) === stream).then(
      (socket) => this.#connected(id, stream, socket),
      () => this.#broke(id, stream),
    );
  }

  #broke(id: number, stream: Stream): void {
    if (this.#open.get(id) !== stream) return;
    this.#open.delete(id);
    this.#parts.send(frameType.reset, 0, id);
  }

  #connected(id: number, stream: Stream, socket: Socket): void {
    if (this.#open.get(id) !== stream) {
      socket.destroy();
      return;
    }
    stream.socket = socket;
    this.#sockets.add(socket);
    socket.on('data', (chunk: Buffer) => this.#read(id, stream, chunk));
    socket.on('end', () => {
      stream.ended = true;
      this.#settle(id, stream);
    });
    // 'close' follows.
    socket.on('error', () => undefined);
    socket.on('close', () => {
      this.#sockets.delete(socket);
      if (stream.ended) {
        stream.deaf = true;
        this.#settle(id, stream);
      } else {
        this.#broke(id, stream);
      }
    });
    for (const frame of stream.early.splice(0)) this.#give(frame, stream);
  }

  #pass(id: number, stream: Stream, socket: Socket, payload: Buffer): void {
    this.#bytesIn += payload.length;
    socket.write(payload, (error) => {
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
    if (stream.held !== null || stream.credit === 0 || this.#parts.full()) stream.socket?.pause();
    else if (stream.socket?.isPaused() === true) stream.socket.resume();
    this.#settle(id, stream);
  }

  /** Passes the socket's end on once all before it was sent, and forgets what is over in both directions. */
  #settle(id: number, stream: Stream): void {
    if (this.#open.get(id) !== stream || !stream.ended || stream.held !== null) return;
    const over = stream.endCame || stream.deaf;
    if (!stream.endSent || (stream.deaf && !stream.endCame)) {
      stream.endSent = true;
      this.#parts.send(frameType.end, stream.deaf ? 1 : 0, id);
    }
    if (!over) return;
    this.#open.delete(id);
    stream.socket?.destroySoon();
  }
}
