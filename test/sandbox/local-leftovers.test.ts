import { spawn } from 'node:child_process';
import { readFileSync, readdirSync } from 'node:fs';
import { mkdir, mkdtemp, readdir, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { createSandboxProvider, type SandboxProvider } from '../../src/sandbox/index.ts';
import { listProcesses } from '../../src/sandbox/local/process-table.ts';
import { until } from '../support/wait.ts';
import { openGateway, reapFilter, requestOf, uniqueSleep } from './fixture.ts';

let directory: string;
let gateway: Awaited<ReturnType<typeof openGateway>>;
let provider: SandboxProvider;

beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), `rp-local-${process.pid}-`));
  // The user of a sandbox has to get through it.
  await rm(directory, { recursive: true });
  await mkdir(directory, { mode: 0o711 });
  gateway = await openGateway();
  provider = createSandboxProvider('local', { directory });
});
afterAll(async () => {
  expect(await readdir(directory)).toEqual([]);
  await rm(directory, { recursive: true });
  await gateway[Symbol.asyncDispose]();
});

/** How many `sleep`s of that many seconds this machine runs. */
function sleepers(seconds: string): number {
  return readdirSync('/proc').filter((pid) => {
    try {
      return readFileSync(`/proc/${pid}/cmdline`, 'utf8') === `sleep\0${seconds}\0`;
    } catch {
      return false;
    }
  }).length;
}

test.runIf(process.platform === 'linux')(
  'what a killed worker left running is found by its directory and ended',
  async () => {
    const sleep = uniqueSleep();
    const script = `
    import { createSandboxProvider } from './src/sandbox/index.ts';
    const { request, directory, sleep } = JSON.parse(process.argv[1]);
    const provider = createSandboxProvider('local', { directory });
    const sandbox = await provider.create({ ...request, signal: new AbortController().signal });
    await sandbox.exec('(setsid sleep ' + sleep + ' >/dev/null 2>&1 &)', { user: 'agent', timeout_ms: 30000 });
    await sandbox.spawn(['sleep', sleep], { user: 'agent' });
    console.log('made');
    setInterval(() => {}, 1000);`;
    const { signal: _signal, ...request } = requestOf(gateway.directory, {
      owner: { worker: 'worker-killed' },
    });
    const worker = spawn(
      process.execPath,
      ['--import', 'tsx', '--input-type=module', '-e', script, JSON.stringify({ request, directory, sleep })],
      { stdio: ['ignore', 'pipe', 'inherit'] },
    );
    const gone = new Promise((resolve) => worker.once('exit', resolve));
    await new Promise((resolve) => worker.stdout.once('data', resolve));
    await until(() => sleepers(sleep) === 2, 'both run');
    worker.kill('SIGKILL');
    await gone;
    expect(sleepers(sleep)).toBe(2);
    expect((await provider.reap(reapFilter())).removed).toEqual([]);
    const report = await provider.reap(reapFilter({ isDead: (name) => name === 'worker-killed' }));
    expect(report.removed).toHaveLength(1);
    expect(sleepers(sleep)).toBe(0);
  },
);

test('a directory whose maker died before it wrote down whose it is goes; others stay', async () => {
  const dead = spawn('true');
  await new Promise((resolve) => dead.once('exit', resolve));
  const half = `rollpool-sandbox-${dead.pid}-half`;
  const making = `rollpool-sandbox-${process.pid}-making`;
  const strange = `rollpool-sandbox-${process.pid}-strange`;
  const others = 'rollpool-sandbox-like';
  for (const name of [half, making, strange, others]) await mkdir(join(directory, name));
  await writeFile(join(directory, strange, 'state.json'), '{"labels":{},"mark":"xxxxxxxxxxxx","uid":null}');
  const report = await provider.reap(reapFilter({ all: true }));
  expect(report).toEqual({ removed: [half], kept: [] });
  expect((await readdir(directory)).sort()).toEqual([making, strange, others].sort());
  for (const name of [making, strange, others]) await rm(join(directory, name), { recursive: true });
});

test('an agent’s directory without permissions does not stay behind', async () => {
  const sandbox = await provider.create(requestOf(gateway.directory));
  await sandbox.exec('mkdir -p a/b/c && touch a/b/c/d && chmod 0 a/b/c a/b a', {
    user: 'agent',
    timeout_ms: 30_000,
  });
  await sandbox[Symbol.asyncDispose]();
});

test('the process table shows this machine’s processes and not this one', async () => {
  const table = await listProcesses();
  expect(table.map(({ pid }) => pid)).toContain(process.ppid);
  expect(table.map(({ pid }) => pid)).not.toContain(process.pid);
});

test('a tree nested deeper than any path, with directories nobody may enter, is removed with its sandbox', async () => {
  const sandbox = await provider.create(requestOf(gateway.directory));
  const name = 'd'.repeat(200);
  const made = await sandbox.exec(
    `for at in $(seq 30); do mkdir ${name} && cd ${name} || exit 1; done 2>/dev/null; cd "$HOME" && mkdir -p a/b && chmod 0 a`,
    { user: 'agent', timeout_ms: 30_000 },
  );
  expect(made.exit_code).toBe(0);
  await sandbox[Symbol.asyncDispose]();
  expect(await readdir(directory)).toEqual([]);
});
