import { endianness } from 'node:os';
import { deflateSync } from 'node:zlib';
import type { Sequence } from '../../contracts/index.ts';
import { frameOffsets, sealFrame } from './frame.ts';
import { messagePack, type PayloadHeader, type SequenceHeader } from './header.ts';
import { forEachSampledRun, maskRuns } from './mask-runs.ts';
import type { Payload } from './payload.ts';
import { longestShared } from './shared-prefix.ts';

/** A sequence that breaks its contract would decode to something else than was encoded: refused here. */
function checkArrays(sequence: Sequence, index: number): void {
  const { token_ids: ids, loss_mask: mask, logprobs } = sequence;
  if (ids.length !== mask.length || ids.length !== logprobs.length)
    throw new RangeError(
      `sequences[${index}]: ${ids.length} token_ids, ${mask.length} loss_mask, ${logprobs.length} logprobs`,
    );
  for (let at = 0; at < mask.length; at += 1) {
    if (mask[at]! > 1) throw new RangeError(`sequences[${index}].loss_mask[${at}] is ${mask[at]}`);
    if (mask[at] === 0 && logprobs[at] !== 0)
      throw new RangeError(`sequences[${index}].logprobs[${at}] is ${logprobs[at]} where the mask is 0`);
  }
}

function headerOf(sequences: readonly Sequence[]): SequenceHeader[] {
  const tokens = sequences.map((sequence) => sequence.token_ids);
  return sequences.map((sequence, index) => {
    checkArrays(sequence, index);
    return {
      role: sequence.role,
      agent_id: sequence.agent_id,
      length: sequence.token_ids.length,
      prompt_len: sequence.prompt_len,
      ...longestShared(tokens, index),
      mask: maskRuns(sequence.loss_mask),
      turns: sequence.turns,
      certificate: sequence.certificate,
    };
  });
}

/** Sequences and trace as one binary (docs/payload.md). Throws RangeError for arrays that break their contract. */
export function encodePayload({ sequences, trace }: Payload): Uint8Array {
  const headers = headerOf(sequences);
  const header = messagePack.pack({ sequences: headers } satisfies PayloadHeader);
  const rawTrace = messagePack.pack(trace);
  const packedTrace = deflateSync(rawTrace, { level: 1 });

  let tokens = 0;
  let sampled = 0;
  for (const { length, shared, mask } of headers) {
    tokens += length - shared;
    forEachSampledRun(mask, length, (start, end) => (sampled += end - start));
  }
  const sizes = {
    tokens,
    logprobs: sampled,
    header: header.length,
    trace: packedTrace.length,
    traceRaw: rawTrace.length,
  };
  const offsets = frameOffsets(sizes);
  // Not from the pool: its own memory starts aligned.
  const bytes = Buffer.allocUnsafeSlow(offsets.end);
  const ids = new Int32Array(bytes.buffer, offsets.tokens, tokens);
  const logprobs = new Float32Array(bytes.buffer, offsets.logprobs, sampled);
  let nextId = 0;
  let nextLogprob = 0;
  headers.forEach(({ length, shared, mask }, index) => {
    const sequence = sequences[index]!;
    ids.set(sequence.token_ids.subarray(shared), nextId);
    nextId += length - shared;
    forEachSampledRun(mask, length, (start, end) => {
      logprobs.set(sequence.logprobs.subarray(start, end), nextLogprob);
      nextLogprob += end - start;
    });
  });
  if (endianness() === 'BE') bytes.subarray(offsets.tokens, offsets.header).swap32();
  bytes.set(header, offsets.header);
  bytes.set(packedTrace, offsets.trace);
  sealFrame(bytes, sizes);
  return bytes;
}
