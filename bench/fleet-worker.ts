// The worker process of bench/fleet: a whole worker, as the command starts it. Answers each message with its figures.
import { startWorker } from '../workers/worker.ts';
import { loadSettings } from '../src/config/index.ts';
import { silentLogger } from '../src/observe/index.ts';

const settings = loadSettings(process.env);
const worker = await startWorker({
  settings,
  queue: { redisUrl: settings.redis.url ?? '', prefix: settings.redis.prefix },
  log: silentLogger,
});
let peak = 0;
const watch = setInterval(() => {
  peak = Math.max(peak, process.memoryUsage.rss());
}, 20);
/** Connections that are open: TCP ones are to the Fleet service and the policy; Redis is on a Unix socket. */
const sockets = (): number =>
  process.getActiveResourcesInfo().filter((one) => one === 'TCPSocketWrap').length;
process.on('message', () => {
  const { user, system } = process.cpuUsage();
  process.send?.({
    cpu_ms: (user + system) / 1000,
    rss: process.memoryUsage.rss(),
    peak,
    sockets: sockets(),
  });
  peak = 0;
});
process.once('SIGTERM', () => {
  clearInterval(watch);
  void worker.close().then(() => process.disconnect());
});
process.send?.({ ready: true });
