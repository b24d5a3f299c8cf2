// The services of bench/fleet, in a process of their own: local Fleet and a scripted policy without latency.
import { startLocalFleet, shippedEnvironments } from '../src/local-fleet/index.ts';
import { parseScripts, startScriptedPolicy } from '../src/policy/index.ts';
import { calls, fleetKey, prompt } from './fleet-episode.ts';

const fleet = await startLocalFleet({ environments: await shippedEnvironments(), apiKey: fleetKey });
const policy = await startScriptedPolicy({
  seed: 1,
  scripts: parseScripts({
    schema: 'rollpool.scripts/1',
    scripts: [
      { match: prompt, turns: [...calls.map((call) => ({ tool_calls: [call] })), { text: 'It is done.' }] },
    ],
  }),
});
let peak = 0;
const watch = setInterval(() => {
  peak = Math.max(peak, fleet.instances().length);
}, 20);
process.on('message', () => {
  process.send?.({ instances: fleet.instances().length, sessions: fleet.sessions(), peak });
  peak = 0;
});
process.once('SIGTERM', () => {
  clearInterval(watch);
  void (async () => {
    await fleet[Symbol.asyncDispose]();
    await policy[Symbol.asyncDispose]();
    process.disconnect();
  })();
});
process.send?.({ fleet: fleet.url, policy: policy.url, model: policy.model });
