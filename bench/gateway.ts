// What the gateway costs, against a direct client and against a minimal http + undici proxy, in one run.
//   npm run build && node dist/bench/gateway.js [cpu] [ids] [latency] [stream] [memory] [peers]      (all of them by default)
// The policy is a fake in a process of its own that answers at once; every server has a process of its own. A large call
// has 60 KB, 2,000 sampled tokens and 15,000 prompt ids (the answer is 320 KB), a small one 4 KB and 50 tokens.
// Peers are installed from their packages into BENCH_PEERS (default: a temporary directory); what does not come up is said.
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Pool } from 'undici';
import { anthropicRequest, continuedRequest, openaiRequest, type Size } from './gateway-bodies.ts';
import {
  burst,
  callsPerCore,
  heard,
  median,
  pairs,
  quantile,
  start,
  steady,
  type Target,
} from './gateway-load.ts';
import { eachPeer } from './gateway-peers.ts';
import { memoryOfWaiting } from './gateway-memory.ts';
import { measureStreams } from './gateway-stream.ts';

const asked = process.argv.slice(2);
const wants = (phase: string): boolean => asked.length === 0 || asked.includes(phase);
const rounds = 5;
/** Calls of one session: an episode's. */
const perSession = 25;
const sizes: readonly Size[] = ['large', 'small'];

await using upstream = await start('gateway-upstream.js');
await using proxy = await start('gateway-proxy.js', upstream.url);
await using gateway = await start('gateway-process.js', upstream.url);
await using streamer = wants('stream') ? await start('gateway-process.js', upstream.url, 'streaming') : null;
const pools = [upstream, proxy, gateway, streamer ?? gateway].map(
  ({ url }) => new Pool(url, { headersTimeout: 0, bodyTimeout: 0 }),
);
const [upstreamPool, proxyPool, gatewayPool, streamerPool] = pools as [Pool, Pool, Pool, Pool];
const json = { 'content-type': 'application/json' };

/** The headers of the CLI's calls (facts: claude-code 1): the proxy reads them too. */
const cliHeaders = (bearer: string): Record<string, string> => ({
  accept: 'application/json',
  authorization: `Bearer ${bearer}`,
  'user-agent': 'claude-cli/2.1.332 (external, cli)',
  'x-claude-code-session-id': bearer,
  'x-app': 'cli',
  'anthropic-version': '2023-06-01',
  'anthropic-beta': 'claude-code-20250219,interleaved-thinking-2025-05-14',
  'x-stainless-lang': 'js',
  'x-stainless-runtime': 'node',
});

/** Made before they are measured: the client's own work is no part of anybody's time. */
function prepared(make: (turn: number) => Buffer): (call: number) => Buffer {
  const bodies = Array.from({ length: 64 }, (_item, turn) => make(turn));
  return (number) => bodies[number % bodies.length]!;
}

const direct = (size: Size, stream = false): Target => ({
  name: 'direct',
  cpuMs: upstream.cpuMs,
  pool: upstreamPool,
  path: '/v1/chat/completions',
  headers: json,
  body: prepared((turn) => openaiRequest(size, turn, stream)),
});

const minimal = (size: Size): Target => ({
  name: 'minimal proxy',
  cpuMs: proxy.cpuMs,
  pool: proxyPool,
  path: '/v1/messages?beta=true',
  headers: { ...json, ...cliHeaders(`rp-${'x'.repeat(43)}`) },
  body: prepared((turn) => anthropicRequest(size, turn)),
});

/** The gateway with fresh sessions for `calls` calls, asked as the CLI asks, or as an OpenAI client does. */
async function through(
  size: Size,
  calls: number,
  kind: 'cli' | 'cli stream' | 'openai' = 'cli',
): Promise<Target> {
  const service = kind === 'cli stream' ? (streamer ?? gateway) : gateway;
  service.child.send({ sessions: Math.ceil(calls / perSession) });
  const { bearers } = await heard<{ bearers: string[] }>(service.child);
  let made = 0;
  const openai = kind === 'openai';
  return {
    name: 'gateway',
    cpuMs: service.cpuMs,
    pool: kind === 'cli stream' ? streamerPool : gatewayPool,
    path: openai ? '/v1/chat/completions' : '/v1/messages?beta=true',
    get headers() {
      const bearer = bearers[Math.floor(made++ / perSession) % bearers.length]!;
      return { ...json, ...(openai ? { authorization: `Bearer ${bearer}` } : cliHeaders(bearer)) };
    },
    body: prepared((turn) =>
      openai ? openaiRequest(size, turn) : anthropicRequest(size, turn, kind === 'cli stream'),
    ),
  };
}

const row = (what: string, figures: string): void => console.log(`${what.padEnd(44)} ${figures}`);
const ms = (value: number): string => `${value.toFixed(2)} ms`;

// Until the compilers have seen enough: they are still at it after some thousand calls.
for (const size of sizes) {
  const count = size === 'large' ? 50 : 250;
  await pairs(
    16,
    count,
    () => minimal(size),
    () => through(size, count),
  );
  await burst(direct(size), 50, 4);
}

if (wants('cpu')) {
  for (const size of sizes) {
    // Short bursts, many of them: an episode's calls are not kept longer than the proxy keeps as many.
    const count = size === 'large' ? 50 : 250;
    const taken = await pairs(
      20,
      count,
      () => minimal(size),
      () => through(size, count),
    );
    const ratios = taken.map(({ first, second }) => second / first);
    row(
      `CPU a call, ${size}`,
      `${ms(median(taken.map(({ second }) => second)))} against the proxy's ${ms(median(taken.map(({ first }) => first)))}: ` +
        `${median(ratios).toFixed(2)} (rounds ${quantile(ratios, 0.25).toFixed(2)} to ${quantile(ratios, 0.75).toFixed(2)})${size === 'large' ? ' (limit 1.2)' : ''}`,
    );
  }
}

if (wants('ids')) {
  await using continuing = await start('gateway-process.js', upstream.url, 'ids');
  const pool = new Pool(continuing.url, { headersTimeout: 0, bodyTimeout: 0 });
  const further = prepared((turn) => continuedRequest('large', 0, turn));
  /** Sessions whose first call, the one that is text, was made. */
  const fromIds = async (count: number): Promise<Target> => {
    continuing.child.send({ sessions: Math.ceil(count / perSession) });
    const { bearers } = await heard<{ bearers: string[] }>(continuing.child);
    let made = 0;
    const asked = (bearer: () => string, body: Target['body']): Target => ({
      ...minimal('large'),
      cpuMs: continuing.cpuMs,
      pool,
      get headers() {
        return { ...json, ...cliHeaders(bearer()) };
      },
      body,
    });
    for (const bearer of bearers) {
      await burst(
        asked(
          () => bearer,
          () => anthropicRequest('large', 0),
        ),
        1,
        1,
      );
    }
    return asked(() => bearers[Math.floor(made++ / perSession) % bearers.length] ?? '', further);
  };
  const asIds = (): ReturnType<typeof pairs> =>
    pairs(
      10,
      2 * perSession,
      () => minimal('large'),
      () => fromIds(2 * perSession),
    );
  await asIds();
  const taken = await asIds();
  row(
    'CPU a call that goes on from ids, large',
    `${ms(median(taken.map(({ second }) => second)))} against the proxy's ${ms(median(taken.map(({ first }) => first)))} for text: ` +
      `${median(taken.map(({ first, second }) => second / first)).toFixed(2)}`,
  );
  await pool.destroy();
}

if (wants('latency')) {
  for (const size of sizes) {
    const times = { direct: [] as number[], proxy: [] as number[], gateway: [] as number[] };
    for (let round = 0; round < rounds; round++) {
      for (const [name, target] of [
        ['direct', direct(size)],
        ['proxy', minimal(size)],
        ['gateway', await through(size, 60)],
      ] as const) {
        times[name].push(...(await steady(target, 20, 60)).map(({ end }) => end));
      }
    }
    const added = (name: 'proxy' | 'gateway', part: number): number =>
      quantile(times[name], part) - quantile(times.direct, part);
    row(
      `added at 20 calls a second, ${size}`,
      `median ${ms(added('gateway', 0.5))} against the proxy's ${ms(added('proxy', 0.5))}: ` +
        `${(added('gateway', 0.5) / added('proxy', 0.5)).toFixed(2)}; p99 ${ms(added('gateway', 0.99))} against ${ms(added('proxy', 0.99))}` +
        (size === 'large' ? ' (limit 1.2)' : ' (limits: median 2.2 ms, p99 5 ms)'),
    );
  }
}

if (streamer !== null) {
  await measureStreams({
    row,
    direct: (size) => direct(size, true),
    through: (size, calls) => through(size, calls, 'cli stream'),
  });
}

if (wants('memory')) {
  // A process of its own: what other phases left behind is no call's.
  await using fresh = await start('gateway-process.js', upstream.url);
  const pool = new Pool(fresh.url, { headersTimeout: 0, bodyTimeout: 0 });
  const waiting = 300;
  const warm = 50;
  fresh.child.send({ sessions: warm + waiting });
  const { bearers } = await heard<{ bearers: string[] }>(fresh.child);
  let made = 0;
  const target: Target = {
    ...minimal('large'),
    cpuMs: fresh.cpuMs,
    pool,
    get headers() {
      return { ...json, ...cliHeaders(bearers[made++] ?? '') };
    },
  };
  await burst(target, warm, 4);
  const { perCall, waitingRss, peakRss } = await memoryOfWaiting(
    waiting,
    fresh.child,
    upstream.child,
    target,
  );
  const kb = (bytes: number): string => `${(bytes / 1000).toFixed(0)} KB`;
  const mb = (bytes: number): string => `${(bytes / 2 ** 20).toFixed(0)} MB`;
  row(
    'a waiting call of 60 KB holds',
    `${kb(perCall.live)} of heap and buffers, ${kb(perCall.rss)} of RSS (limit 250 KB)`,
  );
  row(`RSS with ${waiting} waiting calls`, mb(waitingRss));
  row(`RSS when all of them are answered`, `${mb(peakRss)} at the peak (limit 400 MB)`);
  await pool.destroy();
}

if (wants('peers')) {
  const seconds = 3;
  const ours = async (size: Size, seconds: number): Promise<number> =>
    callsPerCore(await through(size, 5_000, 'openai'), seconds, 8);
  for (const size of sizes) {
    await ours(size, 3);
    row(`calls a second of CPU, ${size}`, `${(await ours(size, seconds)).toFixed(0)}`);
  }
  const given = process.env['BENCH_PEERS'];
  const directory = given ?? (await mkdtemp(join(tmpdir(), 'rp-bench-peers-')));
  await eachPeer(
    directory,
    upstream.url,
    async (name, peer) => {
      for (const size of sizes) {
        const target = { ...peer(size), body: prepared(peer(size).body) };
        await callsPerCore(target, seconds, 8);
        // In turn, as what else the machine does meets both.
        const made: { ours: number; theirs: number }[] = [];
        for (let round = 0; round < 3; round++) {
          made.push({ theirs: await callsPerCore(target, seconds, 8), ours: await ours(size, seconds) });
        }
        row(
          `  ${name}, ${size}`,
          `${median(made.map(({ theirs }) => theirs)).toFixed(0)} against ${median(made.map((each) => each.ours)).toFixed(0)}: ` +
            `the gateway makes ${median(made.map((each) => each.ours / each.theirs)).toFixed(1)} times as many`,
        );
      }
    },
    (name, reason) => row(`  ${name}`, `did not run: ${reason}`),
  );
  if (given === undefined) await rm(directory, { recursive: true, force: true });
}

await Promise.all(pools.map((pool) => pool.destroy()));
