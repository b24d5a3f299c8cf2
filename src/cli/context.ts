import { join } from 'node:path';
import type { Settings } from '../config/index.ts';
import { createLogger, type Logger } from '../observe/index.ts';
import { createQueue, type QueueOptions, type RolloutQueue } from '../queue/index.ts';
import { startEmbeddedRedis } from '../queue/embedded-redis/index.ts';

/** What a command that touches the queue works with. */
export interface QueueContext extends AsyncDisposable {
  readonly queue: RolloutQueue;
  readonly options: QueueOptions;
  readonly log: Logger;
}

/** Redis of the settings, or the embedded one under the state directory, shared by all commands of this user. */
export async function openRedis(
  settings: Settings,
  log: Logger,
): Promise<{ readonly url: string; readonly embedded: boolean } & AsyncDisposable> {
  if (settings.redis.url !== null) {
    return { url: settings.redis.url, embedded: false, [Symbol.asyncDispose]: async () => {} };
  }
  const redis = await startEmbeddedRedis({ dataDir: join(settings.stateDir, 'redis'), log });
  return { url: redis.url, embedded: true, [Symbol.asyncDispose]: () => redis[Symbol.asyncDispose]() };
}

/** Opens Redis and the queue; disposing closes both, an embedded Redis included when nobody else uses it. */
export async function openQueue(settings: Settings, level = settings.logLevel): Promise<QueueContext> {
  const log = createLogger({ level });
  const redis = await openRedis(settings, log);
  const options: QueueOptions = {
    redisUrl: redis.url,
    prefix: settings.redis.prefix,
    log,
    timings: {
      lockMs: settings.worker.lockSeconds * 1000,
      renewMs: settings.worker.lockRenewSeconds * 1000,
      stalledMs: settings.worker.stalledSeconds * 1000,
    },
  };
  try {
    const queue = await createQueue(options);
    return {
      queue,
      options,
      log,
      [Symbol.asyncDispose]: async () => {
        await queue.close();
        await redis[Symbol.asyncDispose]();
      },
    };
  } catch (error) {
    await redis[Symbol.asyncDispose]();
    throw error;
  }
}
