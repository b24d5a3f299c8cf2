import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { silentLogger } from '../../src/observe/index.ts';
import { startWorkerPool, supervise, WorkerProcessError } from '../../workers/supervisor.ts';
import { until } from '../support/wait.ts';

const program = fileURLToPath(new URL('child.mjs', import.meta.url));

let directory: string;
beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), `rollpool-supervisor-${process.pid}-`));
});
afterAll(async () => rm(directory, { recursive: true }));

function options(mode: string, counter?: string) {
  return {
    processes: 2,
    program,
    arguments: counter === undefined ? [mode] : [mode, counter],
    env: process.env,
    log: silentLogger,
  };
}

async function pids(counter: string): Promise<number[]> {
  const text = await readFile(counter, 'utf8').catch(() => '');
  return text.trim().split('\n').filter(Boolean).map(Number);
}

function alive(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
}

describe('a pool of worker processes', () => {
  test('is ready when each is, and stops them all', async () => {
    const counter = join(directory, 'stops');
    const pool = startWorkerPool(options('serves', counter));
    await pool.ready;
    const started = await pids(counter);
    expect(started).toHaveLength(2);
    expect(await pool.stop()).toBe(true);
    expect(started.filter(alive)).toEqual([]);
    expect(pool.crashes()).toBe(0);
  });

  test('says when one did not end well', async () => {
    const pool = startWorkerPool(options('ends-badly'));
    await pool.ready;
    expect(await pool.stop()).toBe(false);
  });

  test('starts again what was killed', async () => {
    const counter = join(directory, 'again');
    await using pool = startWorkerPool(options('serves', counter));
    await pool.ready;
    const [first = 0] = await pids(counter);
    process.kill(first, 'SIGKILL');
    await until(async () => (await pids(counter)).length === 3, 'a third process was started');
    expect(pool.crashes()).toBe(1);
    expect(alive(first)).toBe(false);
  });

  test('fails when one cannot start, and leaves none', async () => {
    const counter = join(directory, 'broken');
    const pool = startWorkerPool(options('broken', counter));
    await expect(pool.ready).rejects.toThrow(WorkerProcessError);
    await expect(pool.failed).rejects.toMatchObject({ exitCode: 2, message: /could not start: exit code 2/ });
    expect(await pool.stop()).toBe(false);
    expect((await pids(counter)).filter(alive)).toEqual([]);
  });

  test('gives up on one that ends again and again', async () => {
    await using pool = startWorkerPool({ ...options('crashes'), processes: 1, giveUpAfter: 2 });
    await expect(pool.failed).rejects.toMatchObject({ exitCode: 3, message: /ended 2 times in a row/ });
  });

  test('kills at once what is told to', async () => {
    const counter = join(directory, 'killed');
    const pool = startWorkerPool(options('serves', counter));
    await pool.ready;
    pool.kill();
    expect(await pool.stop()).toBe(false);
    expect((await pids(counter)).filter(alive)).toEqual([]);
  });
});

describe('a supervisor', () => {
  const shutdown = (): { graceful: AbortController; forced: AbortController } => ({
    graceful: new AbortController(),
    forced: new AbortController(),
  });

  test('ends with the exit code of a worker that cannot start', async () => {
    const { graceful, forced } = shutdown();
    const code = await supervise({
      ...options('broken'),
      shutdown: { graceful: graceful.signal, forced: forced.signal },
    });
    expect(code).toBe(2);
  });

  test('hands off at the first signal', async () => {
    const { graceful, forced } = shutdown();
    const counter = join(directory, 'supervised');
    const supervised = supervise({
      ...options('serves', counter),
      shutdown: { graceful: graceful.signal, forced: forced.signal },
    });
    await until(async () => (await pids(counter)).length === 2, 'both run');
    graceful.abort();
    expect(await supervised).toBe(0);
  });
});
