import { randomBytes } from 'node:crypto';
import { chmod, mkdtemp, rm } from 'node:fs/promises';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { SandboxSpec } from '../../src/contracts/index.ts';
import type { Owner, ReapFilter } from '../../src/contracts/index.ts';
import type { Sandbox, SandboxRequest } from '../../src/sandbox/index.ts';

/** What the socket of `openGateway` says to whoever connects. */
export const greeting = 'the gateway is here\n';

/** A directory with a listening `gw.sock`, with the modes the gateway gives them. */
export async function openGateway(): Promise<AsyncDisposable & { directory: string }> {
  const directory = await mkdtemp(join(tmpdir(), `rp-gw-${process.pid}-`));
  await chmod(directory, 0o711);
  const server = createServer((socket) => {
    socket.on('error', () => undefined);
    socket.end(greeting);
  });
  await new Promise<void>((resolve) => server.listen(join(directory, 'gw.sock'), resolve));
  await chmod(join(directory, 'gw.sock'), 0o666);
  return {
    directory,
    [Symbol.asyncDispose]: async () => {
      await new Promise((resolve) => server.close(resolve));
      await rm(directory, { recursive: true, force: true });
    },
  };
}

/** The pool of this test process: nobody else's sandboxes are in it. */
export const testPool = `test-${process.pid}-${randomBytes(4).toString('hex')}`;

export function ownerOf(overrides: Partial<Owner> = {}): Owner {
  return {
    pool: testPool,
    worker: 'worker-a',
    run_id: 'run-1',
    episode_id: 'e0123456789ab',
    attempt: 1,
    nonce: `t${randomBytes(8).toString('hex')}`,
    ...overrides,
  };
}

export function requestOf(
  gatewayDir: string,
  overrides: Omit<Partial<SandboxRequest>, 'spec' | 'owner'> & {
    spec?: Partial<SandboxSpec>;
    owner?: Partial<Owner>;
  } = {},
): SandboxRequest {
  return {
    gateway_dir: gatewayDir,
    cli_binary: null,
    ttl_seconds: 600,
    signal: new AbortController().signal,
    ...overrides,
    spec: { cpus: 1, memory_mb: 512, network: 'none', workdir: '/workspace', ...overrides.spec },
    owner: ownerOf(overrides.owner),
  };
}

export function reapFilter(overrides: Partial<ReapFilter> = {}): ReapFilter {
  return { pool: testPool, isDead: () => false, ...overrides };
}

/** A number of seconds nobody else sleeps for, so that a sleep can be told from every other. */
export function uniqueSleep(): string {
  return `3${Math.floor(Math.random() * 900 + 100)}.${randomBytes(3).readUIntBE(0, 3)}`;
}

/** How many processes inside have `text` in their command line. The search itself carries it in its environment only. */
export async function countProcesses(sandbox: Sandbox, text: string): Promise<number> {
  const script = `
    count=0
    for file in /proc/[0-9]*/cmdline; do
      line=$(tr '\\0' ' ' <"$file") || continue
      [[ $line == *"$WANTED"* ]] && count=$((count + 1))
    done 2>/dev/null
    echo "$count"`;
  const found = await sandbox.exec(script, { env: { WANTED: text }, timeout_ms: 30_000 });
  return Number(found.stdout);
}
