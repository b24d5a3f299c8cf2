export {
  createFlightRecorder,
  noTrace,
  type EpisodeTrace,
  type FlightRecorder,
  type FlightRecorderOptions,
} from './flight-recorder.ts';
export { traceDirectory } from './trace-path.ts';
export { findTraces, readTrace, type Trace, type TraceFile } from './read-trace.ts';
export type { TracedCall } from './trace-reading.ts';
