/**
 * A worker and a feeder that SIGKILL themselves at one crash point, for crash.test.ts.
 * Arguments: Redis URL, prefix, crash point.
 */
import { setCrashHook, type CrashPoint } from '../../src/observe/index.ts';
import { startEpisodeWorker, startFeeder } from '../../src/queue/index.ts';
import { infraFailureOf, lane, outputOf, shortTimings } from './pool.ts';

const [redisUrl, prefix, point] = process.argv.slice(2) as [string, string, CrashPoint];
setCrashHook((at) => {
  if (at === point) process.kill(process.pid, 'SIGKILL');
});
const options = { redisUrl, prefix, timings: shortTimings };
await startFeeder(options);
const worker = await startEpisodeWorker({
  ...options,
  lanes: [lane],
  concurrency: 2,
  process: async (attempt) => {
    if (point.startsWith('retry.')) return infraFailureOf(attempt);
    if (point.startsWith('handoff')) {
      void worker.close({ mode: 'handoff' });
      await new Promise((resolve) => attempt.signal.addEventListener('abort', resolve, { once: true }));
      throw attempt.signal.reason as Error;
    }
    return outputOf(attempt, attempt.attempt);
  },
});
