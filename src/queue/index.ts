export * from './api.ts';
export * from './closed-group.ts';
export {
  connectFailFast,
  connectPatient,
  disconnect,
  parseRedisUrl,
  redactRedisUrl,
  RedisUnreachableError,
  type ConnectOptions,
} from './connection.ts';
export { createQueue } from './create-queue.ts';
export { startFeeder } from './feeder.ts';
export {
  checkName,
  defaultPrefix,
  episodeQueue,
  queueNames,
  resultsQueue,
  type QueueNames,
} from './names.ts';
export * from './processor.ts';
export { startReconciler } from './reconciler.ts';
export { defaultMaxAttempts, defaultTimings, type QueueTimings } from './timings.ts';
export { startEpisodeWorker } from './worker/episode-worker.ts';
export { newWorkerId } from './workers-alive.ts';
