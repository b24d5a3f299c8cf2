// What a Docker sandbox costs over the bare container: created and ready, a command in it, the kill of the agent and its
// removal, one at a time and 16 at once, in turns within one run, so that both meet the same machine.
//
//   npx tsx bench/sandbox.ts [rounds]
import { randomBytes } from 'node:crypto';
import { chmod, mkdtemp, rm } from 'node:fs/promises';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import Docker from 'dockerode';
import { createSandboxProvider, type Sandbox } from '../src/sandbox/index.ts';

const image = 'rollpool-sandbox:bookworm';
const rounds = Number(process.argv[2] ?? 10);
const atOnce = 16;
const docker = new Docker();

async function timed<T>(run: () => Promise<T>): Promise<[T, number]> {
  const start = performance.now();
  const value = await run();
  return [value, performance.now() - start];
}

function median(values: readonly number[]): number {
  return values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)] ?? Number.NaN;
}

/** create + start with the same limits and no network: the floor. */
async function bare(): Promise<Docker.Container> {
  const container = await docker.createContainer({
    Image: image,
    Cmd: ['sleep', '600'],
    HostConfig: {
      Init: true,
      NetworkMode: 'none',
      Memory: 512 * 2 ** 20,
      NanoCpus: 1e9,
      PidsLimit: 512,
      CapDrop: ['ALL'],
    },
  });
  await container.start();
  return container;
}

const directory = await mkdtemp(join(tmpdir(), 'rp-bench-'));
await chmod(directory, 0o711);
const gateway = createServer();
await new Promise<void>((resolve) => gateway.listen(join(directory, 'gw.sock'), resolve));
const provider = createSandboxProvider('docker', { defaultImage: image });

async function ours(): Promise<Sandbox> {
  return provider.create({
    spec: { cpus: 1, memory_mb: 512, network: 'none', workdir: '/workspace' },
    owner: {
      pool: 'bench',
      worker: 'bench',
      run_id: 'bench',
      episode_id: 'bench',
      attempt: 1,
      nonce: randomBytes(8).toString('hex'),
    },
    gateway_dir: directory,
    cli_binary: null,
    ttl_seconds: 600,
    signal: new AbortController().signal,
  });
}

const floor: Record<string, number[]> = { ready: [], exec: [], remove: [] };
const cost: Record<string, number[]> = { ready: [], exec: [], remove: [], kill: [], state: [] };
try {
  await provider.probe();
  await (await bare()).remove({ force: true });
  await (await ours())[Symbol.asyncDispose]();
  for (let round = 0; round < rounds; round++) {
    const [container, started] = await timed(bare);
    floor['ready']!.push(started);
    const [, executed] = await timed(async () => {
      const exec = await container.exec({ Cmd: ['true'], AttachStdout: true });
      const stream = await exec.start({ hijack: true, stdin: false });
      stream.resume();
      await new Promise((resolve) => stream.once('close', resolve));
      await exec.inspect();
    });
    floor['exec']!.push(executed);
    floor['remove']!.push((await timed(async () => void (await container.remove({ force: true }))))[1]);

    const [sandbox, ready] = await timed(ours);
    cost['ready']!.push(ready);
    cost['exec']!.push((await timed(() => sandbox.exec(['true'], { user: 'agent', timeout_ms: 60_000 })))[1]);
    cost['state']!.push((await timed(() => sandbox.state()))[1]);
    cost['kill']!.push((await timed(() => sandbox.killAgent(60_000)))[1]);
    cost['remove']!.push((await timed(async () => sandbox[Symbol.asyncDispose]()))[1]);
  }
  console.log(`median of ${rounds}      bare    sandbox   ratio`);
  for (const name of ['ready', 'exec', 'remove']) {
    const [low, high] = [median(floor[name]!), median(cost[name]!)];
    console.log(
      `${name.padEnd(14)}${low.toFixed(0).padStart(6)} ms${high.toFixed(0).padStart(8)} ms${(high / low).toFixed(2).padStart(8)}`,
    );
  }
  for (const name of ['state', 'kill'])
    console.log(`${name.padEnd(14)}     -   ${median(cost[name]!).toFixed(1).padStart(8)} ms`);

  const [containers, bareTogether] = await timed(() => Promise.all(Array.from({ length: atOnce }, bare)));
  await Promise.all(containers.map((container) => container.remove({ force: true })));
  const [sandboxes, oursTogether] = await timed(() => Promise.all(Array.from({ length: atOnce }, ours)));
  await Promise.all(sandboxes.map((sandbox) => sandbox[Symbol.asyncDispose]()));
  console.log(
    `${`${atOnce} at once`.padEnd(14)}${bareTogether.toFixed(0).padStart(6)} ms${oursTogether.toFixed(0).padStart(8)} ms` +
      `${(oursTogether / bareTogether).toFixed(2).padStart(8)}`,
  );
} finally {
  await provider[Symbol.asyncDispose]();
  gateway.close();
  await rm(directory, { recursive: true });
}
