import { crc32 } from 'node:zlib';
import { PayloadError } from './payload.ts';

/** `RPPL` as a little-endian number. */
const magic = 0x4c505052;

/** The version this code writes and the only one it reads. */
const payloadVersion = 1;

/** Bytes before the first section. A multiple of 4, so that the token arrays are aligned. */
const preambleBytes = 32;

const checksumAt = 8;
const checkedFrom = 12;

/** Sizes of the sections, in the order in which they follow the preamble. Byte by byte in docs/payload.md. */
export interface FrameSizes {
  /** int32 token ids. */
  readonly tokens: number;
  /** float32 logprobs. */
  readonly logprobs: number;
  /** Bytes of the MessagePack header. */
  readonly header: number;
  /** Bytes of the deflated trace, and what it inflates to. */
  readonly trace: number;
  readonly traceRaw: number;
}

/** Byte offsets of the sections. */
export interface FrameOffsets {
  readonly tokens: number;
  readonly logprobs: number;
  readonly header: number;
  readonly trace: number;
  readonly end: number;
}

export function frameOffsets(sizes: FrameSizes): FrameOffsets {
  const tokens = preambleBytes;
  const logprobs = tokens + 4 * sizes.tokens;
  const header = logprobs + 4 * sizes.logprobs;
  const trace = header + sizes.header;
  return { tokens, logprobs, header, trace, end: trace + sizes.trace };
}

function viewOf(bytes: Uint8Array): DataView {
  return new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}

/** Writes the preamble of a frame whose sections are in place, checksum last. */
export function sealFrame(bytes: Uint8Array, sizes: FrameSizes): void {
  const view = viewOf(bytes);
  view.setUint32(0, magic, true);
  view.setUint16(4, payloadVersion, true);
  view.setUint16(6, 0, true);
  view.setUint32(12, sizes.tokens, true);
  view.setUint32(16, sizes.logprobs, true);
  view.setUint32(20, sizes.header, true);
  view.setUint32(24, sizes.trace, true);
  view.setUint32(28, sizes.traceRaw, true);
  view.setUint32(checksumAt, crc32(bytes.subarray(checkedFrom)), true);
}

/** Checks magic, version, length and checksum; throws PayloadError naming the first that is wrong. */
export function openFrame(bytes: Uint8Array): FrameSizes {
  if (bytes.length < preambleBytes)
    throw new PayloadError(`cut short: ${bytes.length} bytes, the preamble alone has ${preambleBytes}`);
  const view = viewOf(bytes);
  if (view.getUint32(0, true) !== magic) throw new PayloadError('does not start with RPPL: not a payload');
  const version = view.getUint16(4, true);
  if (version !== payloadVersion)
    throw new PayloadError(`version ${version}, this reader knows version ${payloadVersion}`);
  if (view.getUint16(6, true) !== 0) throw new PayloadError('reserved bytes 6 and 7 are not zero');
  const sizes: FrameSizes = {
    tokens: view.getUint32(12, true),
    logprobs: view.getUint32(16, true),
    header: view.getUint32(20, true),
    trace: view.getUint32(24, true),
    traceRaw: view.getUint32(28, true),
  };
  const { end } = frameOffsets(sizes);
  if (bytes.length < end) throw new PayloadError(`cut short: ${bytes.length} of ${end} bytes`);
  if (bytes.length > end) throw new PayloadError(`${bytes.length - end} bytes too many`);
  const checksum = view.getUint32(checksumAt, true);
  const found = crc32(bytes.subarray(checkedFrom));
  if (found !== checksum)
    throw new PayloadError(`checksum is ${found.toString(16)}, should be ${checksum.toString(16)}: damaged`);
  return sizes;
}
