// What a Docker sandbox costs over the bare container: created and ready, a command in it, the kill of the agent and its
// removal, one at a time and 16 at once, in turns within one run, so that both meet the same machine. Beside each ratio stands
// the most it may be. And what it takes to get one that was made ahead.
//
//   npx tsx bench/sandbox.ts [rounds]
import { randomBytes } from 'node:crypto';
import { chmod, mkdtemp, rm } from 'node:fs/promises';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import Docker from 'dockerode';
import { createSandboxProvider, type Sandbox, type SandboxRequest } from '../src/sandbox/index.ts';

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
const provider = createSandboxProvider('docker', { defaultImage: image, runtimeDirectory: directory });

function request(): SandboxRequest {
  return {
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
  };
}

const ours = (): Promise<Sandbox> => provider.create(request());

/** One exec of `true`, as bare as it gets. */
async function bareExec(container: Docker.Container): Promise<void> {
  const exec = await container.exec({ Cmd: ['true'], AttachStdout: true });
  const stream = await exec.start({ hijack: true, stdin: false });
  stream.resume();
  await new Promise((resolve) => stream.once('close', resolve));
  await exec.inspect();
}

/** Milliseconds from the wish for a sandbox made ahead to the sandbox. */
async function fromAhead(): Promise<number> {
  const { gateway_dir: _none, ...ahead } = request();
  const prepared = await provider.prepare!(ahead);
  const [sandbox, took] = await timed(async () => {
    if (!(await prepared.check(5_000))) throw new Error('a sandbox made ahead does not answer');
    return prepared.assign({
      gateway_dir: directory,
      ttl_seconds: 600,
      signal: new AbortController().signal,
    });
  });
  await sandbox[Symbol.asyncDispose]();
  return took;
}

function row(name: string, low: number, high: number, most: number | null): void {
  const ratio = high / low;
  const limit = most === null ? '' : `   at most ${most.toFixed(2)}${ratio > most ? '  MISSED' : ''}`;
  console.log(
    `${name.padEnd(22)}${low.toFixed(0).padStart(6)} ms${high.toFixed(0).padStart(8)} ms${ratio.toFixed(2).padStart(8)}${limit}`,
  );
}

function line(name: string, ms: number, most: number | null): void {
  const limit = most === null ? '' : `           at most ${most} ms${ms > most ? '  MISSED' : ''}`;
  console.log(`${name.padEnd(22)}     -   ${ms.toFixed(1).padStart(8)} ms${limit}`);
}

const atOnceRounds = 3;
const floor: Record<string, number[]> = { ready: [], exec: [], remove: [], together: [] };
const cost: Record<string, number[]> = {
  ready: [],
  probed: [],
  exec: [],
  remove: [],
  kill: [],
  state: [],
  together: [],
  ahead: [],
};
try {
  await provider.probe();
  await (await bare()).remove({ force: true });
  await (await ours())[Symbol.asyncDispose]();
  for (let round = 0; round < rounds; round++) {
    const [container, started] = await timed(bare);
    floor['ready']!.push(started);
    floor['exec']!.push((await timed(() => bareExec(container)))[1]);
    floor['remove']!.push((await timed(async () => void (await container.remove({ force: true }))))[1]);

    const [sandbox, ready] = await timed(ours);
    cost['ready']!.push(ready);
    const executed = (await timed(() => sandbox.exec(['true'], { user: 'agent', timeout_ms: 60_000 })))[1];
    cost['exec']!.push(executed);
    cost['probed']!.push(ready + executed);
    cost['state']!.push((await timed(() => sandbox.state()))[1]);
    cost['kill']!.push((await timed(() => sandbox.killAgent(60_000)))[1]);
    cost['remove']!.push((await timed(async () => sandbox[Symbol.asyncDispose]()))[1]);
    cost['ahead']!.push(await fromAhead());
  }
  for (let round = 0; round < atOnceRounds; round++) {
    const [containers, low] = await timed(() => Promise.all(Array.from({ length: atOnce }, bare)));
    await Promise.all(containers.map((container) => container.remove({ force: true })));
    floor['together']!.push(low);
    const [sandboxes, high] = await timed(() => Promise.all(Array.from({ length: atOnce }, ours)));
    await Promise.all(sandboxes.map((sandbox) => sandbox[Symbol.asyncDispose]()));
    cost['together']!.push(high);
  }
  console.log(`median of ${rounds}              bare    sandbox   ratio`);
  const bareReady = median(floor['ready']!);
  row('ready', bareReady, median(cost['ready']!), 1.15);
  row('ready and one command', bareReady, median(cost['probed']!), 1.35);
  row('exec', median(floor['exec']!), median(cost['exec']!), null);
  row('remove', median(floor['remove']!), median(cost['remove']!), null);
  row(`${atOnce} at once`, median(floor['together']!), median(cost['together']!), 1.3);
  line('made ahead', median(cost['ahead']!), 30);
  line('state', median(cost['state']!), null);
  line('kill', median(cost['kill']!), null);
} finally {
  await provider[Symbol.asyncDispose]();
  gateway.close();
  await rm(directory, { recursive: true });
}
