import { crc32 } from 'node:zlib';

/**
 * A frame of the tunnel, as relay.py reads and writes it. 20 bytes, big endian: magic (2), type (1), flag (1), stream (4),
 * number (4; 0 where the type is not numbered), length of the payload (4), CRC-32 of all of it but itself (4); then the
 * payload. Types from `open` on are numbered, kept until acknowledged and sent again after a channel broke.
 */
export const frameType = {
  /** Text, one fact a line; the first frame of a channel in each direction. */
  hello: 1,
  /** The number is that of the last frame that came in order. */
  ack: 2,
  ping: 3,
  pong: 4,
  /** The worker wants nothing more: the relay ends. */
  bye: 5,
  /** A connection was made inside; the flag is the index of its route. */
  open: 16,
  data: 17,
  /** No more bytes in this direction; flag 1: and none is read either. */
  end: 18,
  /** The connection broke, or could not be made. */
  reset: 19,
  /** The payload (4 bytes) is how many bytes more the sender may send. */
  window: 20,
} as const;

export interface Frame {
  readonly type: number;
  readonly flag: number;
  readonly stream: number;
  readonly number: number;
  readonly payload: Buffer;
}

export const headerBytes = 20;
export const maxPayload = 64 * 1024;
const magic = 0x5250;
/** Bytes that may come before the marker: what a login shell says. */
const maxNoise = 1024 * 1024;

/** What came over a channel is no frame: the channel is given up. */
export class BrokenFrameError extends Error {
  override readonly name = 'BrokenFrameError';
}

export function isNumbered(type: number): boolean {
  return type >= frameType.open;
}

export function encodeFrame(frame: Omit<Frame, 'payload'> & { payload?: Uint8Array }): Buffer {
  const payload = frame.payload ?? new Uint8Array();
  const bytes = Buffer.allocUnsafe(headerBytes + payload.length);
  bytes.writeUInt16BE(magic, 0);
  bytes.writeUInt8(frame.type, 2);
  bytes.writeUInt8(frame.flag, 3);
  bytes.writeUInt32BE(frame.stream, 4);
  bytes.writeUInt32BE(frame.number, 8);
  bytes.writeUInt32BE(payload.length, 12);
  bytes.writeUInt32BE(crc32(payload, crc32(bytes.subarray(0, 16))), 16);
  bytes.set(payload, headerBytes);
  return bytes;
}

/** Cuts frames out of a channel's bytes, however they are cut up. What comes before `marker` is skipped. */
export class FrameReader {
  #pieces: Buffer[] = [];
  #length = 0;
  #needed: number;
  #marker: Buffer | null;
  #noise = 0;

  constructor(marker: Buffer) {
    this.#marker = marker;
    this.#needed = marker.length;
  }

  /** Whether the marker was seen. */
  get started(): boolean {
    return this.#marker === null;
  }

  /** Throws BrokenFrameError; nothing can be read afterwards. */
  push(chunk: Buffer): Frame[] {
    this.#pieces.push(chunk);
    this.#length += chunk.length;
    const frames: Frame[] = [];
    while (this.#length >= this.#needed) {
      const [first] = this.#pieces;
      const bytes = this.#pieces.length === 1 && first !== undefined ? first : Buffer.concat(this.#pieces);
      const left = this.#marker === null ? this.#cut(bytes, frames) : this.#skip(bytes, this.#marker);
      this.#pieces = left.length === 0 ? [] : [left];
      this.#length = left.length;
    }
    return frames;
  }

  #skip(bytes: Buffer, marker: Buffer): Buffer {
    const at = bytes.indexOf(marker);
    if (at >= 0) {
      this.#marker = null;
      this.#needed = headerBytes;
      return bytes.subarray(at + marker.length);
    }
    const left = bytes.subarray(bytes.length - marker.length + 1);
    this.#noise += bytes.length - left.length;
    if (this.#noise > maxNoise) throw new BrokenFrameError('nothing but noise came over the channel');
    return left;
  }

  #cut(bytes: Buffer, frames: Frame[]): Buffer {
    let at = 0;
    for (;;) {
      this.#needed = headerBytes;
      if (bytes.length - at < headerBytes) break;
      const length = bytes.readUInt32BE(at + 12);
      if (bytes.readUInt16BE(at) !== magic || length > maxPayload) {
        throw new BrokenFrameError('what came over the channel is not a frame');
      }
      this.#needed = headerBytes + length;
      if (bytes.length - at < this.#needed) break;
      const payload = bytes.subarray(at + headerBytes, at + this.#needed);
      if (crc32(payload, crc32(bytes.subarray(at, at + 16))) !== bytes.readUInt32BE(at + 16)) {
        throw new BrokenFrameError('a frame came damaged over the channel');
      }
      frames.push({
        type: bytes.readUInt8(at + 2),
        flag: bytes.readUInt8(at + 3),
        stream: bytes.readUInt32BE(at + 4),
        number: bytes.readUInt32BE(at + 8),
        payload,
      });
      at += this.#needed;
    }
    return bytes.subarray(at);
  }
}
