// Child of the embedded Redis tests: starts one over the directory given, says so, and does what it is told.
import { startEmbeddedRedis } from '../../../src/queue/embedded-redis/index.ts';
import { silentLogger } from '../../../src/observe/index.ts';

const redis = await startEmbeddedRedis({ dataDir: process.argv[2] ?? '', log: silentLogger });
process.stdout.write(`${JSON.stringify({ url: redis.url, pid: redis.pid(), adopted: redis.adopted })}\n`);
process.stdin.once('data', (command) => {
  if (command.toString().trim() === 'exit') process.exit(0);
  void redis[Symbol.asyncDispose]().then(() => process.exit(0));
});
