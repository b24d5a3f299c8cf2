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
export {
  checkName,
  defaultPrefix,
  episodeQueue,
  queueNames,
  resultsQueue,
  type QueueNames,
} from './names.ts';
export * from './processor.ts';
export { defaultMaxAttempts, defaultTimings, type QueueTimings } from './timings.ts';
