import type { IncomingMessage } from 'node:http';
import type { Readable } from 'node:stream';
import zlib from 'node:zlib';
import type { RequestLoad } from './session-load.ts';

/** Bytes of a request body, before and after decompression. */
export const bodyLimit = 64 * 2 ** 20;

export class BodyError extends Error {
  readonly status: 400 | 413 | 415 | 429;

  constructor(status: 400 | 413 | 415 | 429, message: string) {
    super(message);
    this.name = 'BodyError';
    this.status = status;
  }
}

type Decoder = NodeJS.ReadWriteStream & Readable;

/** Node has Zstandard from version 22.15 on. */
const { createZstdDecompress } = zlib as unknown as { readonly createZstdDecompress?: () => Decoder };

const decoders: ReadonlyMap<string, () => Decoder> = new Map<string, () => Decoder>([
  ['gzip', zlib.createGunzip],
  ['x-gzip', zlib.createGunzip],
  ['deflate', zlib.createInflate],
  ['br', zlib.createBrotliDecompress],
  ...(createZstdDecompress === undefined ? [] : [['zstd', createZstdDecompress] as const]),
]);

/**
 * Gives every chunk of a body to `take`, until that throws. Iterating the request says the same, with a turn of promises a
 * chunk. The request itself stays open: its connection still has to carry the refusal.
 */
function eachChunk(request: IncomingMessage, take: (chunk: Buffer) => void): Promise<void> {
  return new Promise((resolve, reject) => {
    const settle = (): void => {
      request.off('data', data).off('end', end).off('error', fail).off('close', gone);
    };
    const end = (): void => {
      settle();
      resolve();
    };
    const fail = (error: Error): void => {
      settle();
      reject(error);
    };
    const gone = (): void => fail(new Error('the client left'));
    const data = (chunk: Buffer): void => {
      try {
        take(chunk);
      } catch (error) {
        fail(error as Error);
      }
    };
    request.on('data', data).on('end', end).on('error', fail).on('close', gone);
  });
}

/** A request's body, decompressed. Rejects with BodyError, or when the client left. */
export async function readBody(
  request: IncomingMessage,
  load: RequestLoad,
  limit = bodyLimit,
): Promise<Buffer> {
  const tooLarge = (): BodyError => new BodyError(413, `the body is larger than ${limit} bytes`);
  if (Number(request.headers['content-length'] ?? 0) > limit) throw tooLarge();
  const encoding = (request.headers['content-encoding'] ?? 'identity').trim().toLowerCase();
  const decoder = encoding === 'identity' ? null : decoders.get(encoding)?.();
  if (decoder === undefined) {
    const taken = [...decoders.keys()].join(', ');
    throw new BodyError(415, `content-encoding ${JSON.stringify(encoding)} is not taken, but ${taken}`);
  }
  const abandon = (): void => {
    if (!request.complete) decoder?.destroy(new Error('the client left'));
  };
  request.once('close', abandon);
  const chunks: Buffer[] = [];
  let size = 0;
  const take = (chunk: Buffer): void => {
    size += chunk.length;
    if (size > limit) throw tooLarge();
    if (!load.take(chunk.length)) throw new BodyError(429, 'too many large requests at once');
    chunks.push(chunk);
  };
  try {
    if (decoder === null) await eachChunk(request, take);
    else for await (const chunk of request.pipe(decoder) as AsyncIterable<Buffer>) take(chunk);
  } catch (error) {
    if (error instanceof BodyError || decoder === null || request.socket.destroyed) throw error;
    throw new BodyError(400, `the body is no ${encoding} data`);
  } finally {
    request.off('close', abandon);
    if (decoder !== null) {
      request.unpipe(decoder);
      decoder.destroy();
    }
  }
  return chunks.length === 1 ? chunks[0]! : Buffer.concat(chunks, size);
}

/** A body's JSON. Lone surrogates in it stay: what goes to the policy has none (case 37). */
export function parseJsonBody(body: Buffer): unknown {
  try {
    return JSON.parse(body.toString('utf8'));
  } catch {
    throw new BodyError(400, 'the body is not valid JSON');
  }
}
