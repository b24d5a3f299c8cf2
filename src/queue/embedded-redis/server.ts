import { spawn } from 'node:child_process';
import { closeSync, openSync, readFileSync, rmSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { z } from 'zod';
import { findBinary } from './binary.ts';
import { EmbeddedRedisError } from './embedded-redis-error.ts';
import { lookUp, processRecordSchema, recordOf, type ProcessRecord } from './process-record.ts';
import { readRecord, removeRecord, writeRecord } from './record-file.ts';
import { makeSocketDirectory, socketPath } from './runtime-directory.ts';
import { ping, serverPid } from './socket-query.ts';
import { heldElsewhere } from './turn.ts';

const serverRecordSchema = processRecordSchema.extend({ socket: z.string() });

/** A server that runs over a data directory. */
export type ServerRecord = z.infer<typeof serverRecordSchema>;

const startMs = 30_000;
// Loading a large append-only file takes as long as it takes; it says so on its socket meanwhile.
const loadMs = 15 * 60_000;
const stopMs = 15_000;

/** The record of the server of a data directory. */
function serverFile(dataDir: string): string {
  return join(dataDir, 'server.json');
}

function logTail(dataDir: string): string {
  try {
    return readFileSync(join(dataDir, 'redis.log'), 'utf8').trim().split('\n').slice(-5).join('\n');
  } catch {
    return '';
  }
}

/** Waits until the server answers; false when it died, or was silent for too long. */
async function answers(server: ServerRecord, signal?: AbortSignal): Promise<boolean> {
  let deadline = Date.now() + startMs;
  const last = Date.now() + loadMs;
  for (;;) {
    const state = await ping(server.socket);
    if (state === 'ready') return true;
    if (state === 'busy') deadline = Math.min(Date.now() + startMs, last);
    if (lookUp(server) === 'dead' || Date.now() > deadline) return false;
    await delay(20, undefined, signal === undefined ? {} : { signal });
  }
}

/**
 * The server that already runs over these data, if any. Call it with the turn.
 *
 * @throws EmbeddedRedisError `elsewhere` when another machine or container started it and did not stop it.
 */
export async function runningServer(dataDir: string): Promise<ServerRecord | null> {
  const recorded = readRecord(serverFile(dataDir), serverRecordSchema);
  if (recorded !== null) {
    const found = lookUp(recorded);
    if (found === 'alive') return recorded;
    if (found === 'elsewhere') throw heldElsewhere(recorded.host, serverFile(dataDir));
  }
  // Whoever started it may have been killed before it wrote the record.
  const socket = socketPath(dataDir);
  const pid = await serverPid(socket);
  const process = pid === null ? null : recordOf(pid);
  if (process === null) return null;
  const server = { ...process, socket };
  writeRecord(serverFile(dataDir), server);
  return server;
}

async function startServer(dataDir: string, wanted: string | undefined): Promise<ServerRecord> {
  const binary = await findBinary(wanted);
  const socket = socketPath(dataDir);
  makeSocketDirectory(socket);
  const log = openSync(join(dataDir, 'redis.log'), 'w', 0o600);
  const settings: Record<string, string> = {
    port: '0',
    unixsocket: socket,
    unixsocketperm: '700',
    dir: dataDir,
    appendonly: 'yes',
    appendfsync: 'everysec',
    save: '',
    // The default for stopping, said aloud: an evicted key would be a lost episode.
    'maxmemory-policy': 'noeviction',
    daemonize: 'no',
    'proc-title-template': '{title} {unixsocket}',
  };
  try {
    const child = spawn(
      binary,
      Object.entries(settings).flatMap(([name, value]) => [`--${name}`, value]),
      {
        // A session of its own: Ctrl-C in the terminal goes to the pool, which stops its server when it has finished.
        detached: true,
        stdio: ['ignore', log, log],
      },
    );
    const failed = new Promise<never>((_resolve, reject) => child.once('error', reject));
    const spawned = new Promise<void>((resolve) => child.once('spawn', resolve));
    await Promise.race([spawned, failed]);
    failed.catch(() => {});
    child.unref();
    const process = child.pid === undefined ? null : recordOf(child.pid);
    if (process === null) {
      throw startFailed(dataDir);
    }
    const server = { ...process, socket };
    writeRecord(serverFile(dataDir), server);
    return server;
  } finally {
    closeSync(log);
  }
}

/**
 * Makes sure that a server runs over the data and answers: adopts the one that is there, replaces one that does not
 * answer, starts one where there is none. Call it with the turn.
 *
 * @throws EmbeddedRedisError
 */
export async function ensureServer(
  dataDir: string,
  binary: string | undefined,
  signal?: AbortSignal,
): Promise<{ server: ServerRecord; adopted: boolean }> {
  const running = await runningServer(dataDir);
  if (running !== null) {
    if (await answers(running, signal)) return { server: running, adopted: true };
    await stopServer(dataDir, running);
  }
  const server = await startServer(dataDir, binary);
  let started = false;
  try {
    started = await answers(server, signal);
    if (started) return { server, adopted: false };
  } finally {
    if (!started) await stopServer(dataDir, server);
  }
  throw startFailed(dataDir);
}

/** Whether the server ended before or after we could look at it, the user reads the same. */
function startFailed(dataDir: string): EmbeddedRedisError {
  return new EmbeddedRedisError(
    'start_failed',
    `the Redis in ${dataDir} does not start; its log ends in:\n${logTail(dataDir)}`,
  );
}

function kill(server: ProcessRecord, signal: 'SIGTERM' | 'SIGKILL'): void {
  try {
    if (lookUp(server) === 'alive') process.kill(server.pid, signal);
  } catch {
    // It ended between the look and the kill.
  }
}

/** Stops a server (it writes what it has first) and removes its traces but not its data. Call it with the turn. */
export async function stopServer(dataDir: string, server: ServerRecord): Promise<void> {
  for (const signal of ['SIGTERM', 'SIGKILL'] as const) {
    kill(server, signal);
    const deadline = Date.now() + stopMs;
    while (lookUp(server) === 'alive' && Date.now() < deadline) await delay(10);
  }
  forgetServer(dataDir, server);
}

/** Asks the server of a data directory to stop, without waiting: all that can be done while a process exits. */
export function abandonServer(dataDir: string): void {
  const server = readRecord(serverFile(dataDir), serverRecordSchema);
  if (server === null) return;
  kill(server, 'SIGTERM');
  forgetServer(dataDir, server);
}

function forgetServer(dataDir: string, server: ServerRecord): void {
  removeRecord(serverFile(dataDir));
  rmSync(dirname(server.socket), { recursive: true, force: true });
}
