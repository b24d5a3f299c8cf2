import { spawn, type ChildProcess } from 'node:child_process';
import { mkdtemp, rm } from 'node:fs/promises';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { TestProject } from 'vitest/node';

declare module 'vitest' {
  interface ProvidedContext {
    /** Unix socket of the suite's Redis. */
    redisSocket: string;
  }
}

async function answers(path: string): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(path, () => socket.write('PING\r\n'));
    socket.once('data', (data) => {
      socket.destroy();
      resolve(data.toString().startsWith('+PONG'));
    });
    socket.once('error', () => resolve(false));
  });
}

/** One real Redis for the whole suite, on a Unix socket; every test takes a fresh prefix in it. */
export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  const directory = await mkdtemp(join(tmpdir(), 'rollpool-suite-'));
  const path = join(directory, 'redis.sock');
  const server: ChildProcess = spawn(
    'redis-server',
    ['--port', '0', '--unixsocket', path, '--save', '', '--appendonly', 'no', '--dir', directory],
    { stdio: 'ignore' },
  );
  const failed = new Promise<never>((_resolve, reject) => {
    server.once('error', (cause) =>
      reject(new Error('the tests need redis-server: apt-get install redis-server', { cause })),
    );
  });
  const deadline = Date.now() + 20_000;
  while (!(await Promise.race([answers(path), failed]))) {
    if (Date.now() > deadline) throw new Error('redis-server did not answer within 20 s');
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  project.provide('redisSocket', path);
  return async () => {
    const exited = new Promise((resolve) => server.once('exit', resolve));
    server.kill('SIGTERM');
    await exited;
    await rm(directory, { recursive: true, force: true });
  };
}
