// The gateway of bench/gateway, in a process of its own. Opens and closes sessions as its parent asks.
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { resolveLimits, resolveSampling } from '../src/contracts/index.ts';
import { createGateway, type GatewaySession } from '../src/gateway/index.ts';
import { silentLogger } from '../src/observe/index.ts';
import { tellCpu } from './gateway-load.ts';
import { tellMemory, watchMemory } from './gateway-memory.ts';

const directory = await mkdtemp(join(tmpdir(), 'rp-bench-'));
const gateway = await createGateway({
  policy: {
    urls: [process.argv[2] ?? ''],
    model: 'bench',
    logprobsMode: 'processed',
    systemInPlace: true,
    streaming: process.argv[3] === 'streaming',
    ...(process.argv[3] === 'ids' ? { callFormat: 'hermes' as const } : {}),
  },
  runtimeDir: directory,
  log: silentLogger,
});
let sessions: GatewaySession[] = [];
let opened = 0;

async function replace(count: number): Promise<string[]> {
  await Promise.all(sessions.map((session) => session[Symbol.asyncDispose]()));
  sessions = await Promise.all(
    Array.from({ length: count }, () => {
      opened++;
      return gateway.open({
        episode_id: `episode-${opened}`,
        attempt: 1,
        nonce: `nonce-${opened}`,
        sampling: resolveSampling({}),
        limits: resolveLimits({ max_turns: 1_000, max_sampled_tokens: 1_000_000, context_tokens: 131_072 }),
        unix_socket: false,
      });
    }),
  );
  return sessions.map(({ bearer }) => bearer);
}

process.on('message', (asked: { sessions?: number; memory?: true; watch?: boolean }) => {
  if (asked.sessions !== undefined) {
    void replace(asked.sessions).then((bearers) => process.send?.({ bearers }));
  } else if (asked.memory === true) tellMemory();
  else if (asked.watch !== undefined) watchMemory(asked.watch);
  else tellCpu();
});
process.once('disconnect', () => {
  void replace(0)
    .then(() => gateway[Symbol.asyncDispose]())
    .then(() => rm(directory, { recursive: true, force: true }));
});
process.send?.({ url: gateway.url });
