/** Takes as many places as it is told and holds them, one line for each, until it is killed. */
import { createPlaceLimit } from '../../../src/queue/control/index.ts';

const [redisUrl, prefix, places, wanted, leaseMs] = process.argv.slice(2);
const limit = await createPlaceLimit({
  redisUrl: redisUrl!,
  prefix: prefix!,
  provider: 'e2b',
  places: Number(places),
  createsPerSecond: null,
  pace: { leaseMs: Number(leaseMs) },
});
const forever = new AbortController().signal;
for (let n = 0; n < Number(wanted); n++) {
  void limit.take(forever).then(() => console.log('held'));
}
setInterval(() => undefined, 60_000);
