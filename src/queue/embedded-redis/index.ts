export { startEmbeddedRedis, type EmbeddedRedis, type EmbeddedRedisOptions } from './embedded-redis.ts';
export { EmbeddedRedisError, type EmbeddedRedisFault } from './embedded-redis-error.ts';
export { inSight, lookUp, processRecordSchema, recordOf, type ProcessRecord } from './process-record.ts';
