export {
  createFlightRecorder,
  noTrace,
  type EpisodeTrace,
  type FlightRecorder,
  type FlightRecorderOptions,
} from './flight-recorder.ts';
export { traceDirectory } from './trace-path.ts';
export { findTraces, readTrace, type Trace, type TraceFile } from './read-trace.ts';
export { followTrace, type TraceStep } from './follow-trace.ts';
export type { TraceLine } from './trace-line.ts';
export { type TracedCall, type TraceSoFar } from './trace-reading.ts';
