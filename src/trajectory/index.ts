export { buildSequences } from './build-sequences.ts';
export { buildTrace } from './build-trace.ts';
export { forksOf } from './forks.ts';
export { decodePayload, decodeTrace } from './payload/decode.ts';
export { encodePayload } from './payload/encode.ts';
export { PayloadError, type Payload } from './payload/payload.ts';
export { sequenceToJson, toResultLine } from './result-json.ts';
