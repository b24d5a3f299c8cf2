import { endianness } from 'node:os';
import { inflateSync } from 'node:zlib';
import type { Sequence, Trace } from '../../contracts/index.ts';
import { frameOffsets, openFrame, type FrameSizes } from './frame.ts';
import { messagePack, type PayloadHeader, type SequenceHeader } from './header.ts';
import { forEachSampledRun } from './mask-runs.ts';
import { PayloadError, type Payload } from './payload.ts';
import { Section } from './section.ts';

function unpack<T>(what: string, bytes: Uint8Array): T {
  try {
    return messagePack.unpack(bytes) as T;
  } catch (cause) {
    throw new PayloadError(`${what} is not MessagePack`, { cause });
  }
}

function readTrace(bytes: Uint8Array, sizes: FrameSizes): Trace {
  const { trace, end } = frameOffsets(sizes);
  let raw: Buffer;
  try {
    raw = inflateSync(bytes.subarray(trace, end), { maxOutputLength: Math.max(sizes.traceRaw, 1) });
  } catch (cause) {
    throw new PayloadError('trace does not inflate', { cause });
  }
  if (raw.length !== sizes.traceRaw)
    throw new PayloadError(`trace inflates to ${raw.length}, not ${sizes.traceRaw} bytes`);
  return unpack('trace', raw);
}

function tokensOf(
  header: SequenceHeader,
  earlier: readonly Sequence[],
  ids: Section<Int32Array>,
): Int32Array {
  const own = ids.take(header.length - header.shared);
  if (header.shared === 0) return own;
  const base = earlier[header.base]?.token_ids;
  if (base === undefined || base.length < header.shared)
    throw new PayloadError(`base ${header.base} has no ${header.shared} tokens to share`);
  const tokens = new Int32Array(header.length);
  tokens.set(base.subarray(0, header.shared));
  tokens.set(own, header.shared);
  return tokens;
}

function readSequences(bytes: Uint8Array, sizes: FrameSizes): Sequence[] {
  const offsets = frameOffsets(sizes);
  const { sequences: headers } = unpack<PayloadHeader>(
    'header',
    bytes.subarray(offsets.header, offsets.trace),
  );
  // One copy of the arrays: the result is aligned and does not hang on the caller's buffer.
  const arrays = Buffer.allocUnsafeSlow(offsets.header - offsets.tokens);
  arrays.set(bytes.subarray(offsets.tokens, offsets.header));
  if (endianness() === 'BE') arrays.swap32();
  const ids = new Section('token ids', new Int32Array(arrays.buffer, 0, sizes.tokens));
  const sampled = new Section('logprobs', new Float32Array(arrays.buffer, 4 * sizes.tokens, sizes.logprobs));

  const sequences: Sequence[] = [];
  for (const header of headers) {
    const lossMask = new Uint8Array(header.length);
    const logprobs = new Float32Array(header.length);
    forEachSampledRun(header.mask, header.length, (start, end) => {
      lossMask.fill(1, start, end);
      logprobs.set(sampled.take(end - start), start);
    });
    sequences.push({
      role: header.role,
      agent_id: header.agent_id,
      token_ids: tokensOf(header, sequences, ids),
      prompt_len: header.prompt_len,
      loss_mask: lossMask,
      logprobs,
      turns: header.turns,
      certificate: header.certificate,
    });
  }
  ids.finish();
  sampled.finish();
  return sequences;
}

/** The inverse of `encodePayload`. Throws PayloadError for anything that is not a whole, undamaged payload. */
export function decodePayload(bytes: Uint8Array): Payload {
  const sizes = openFrame(bytes);
  try {
    return { sequences: readSequences(bytes, sizes), trace: readTrace(bytes, sizes) };
  } catch (cause) {
    // The checksum holds: a faulty writer, not damage on the way.
    throw cause instanceof PayloadError ? cause : new PayloadError('header is malformed', { cause });
  }
}

/** The trace alone, for people: no sequence is decoded. Throws PayloadError as `decodePayload` does. */
export function decodeTrace(bytes: Uint8Array): Trace {
  return readTrace(bytes, openFrame(bytes));
}
