import { linkSync, mkdirSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { z } from 'zod';
import { EmbeddedRedisError } from './embedded-redis-error.ts';
import { lookUp, processRecordSchema, recordOf } from './process-record.ts';
import { readRecord, temporaryName, writeRecord } from './record-file.ts';

const turnSchema = z.union([processRecordSchema, z.object({ released: z.literal(true) })]);

/** The right to start or stop the server of one data directory, until it is disposed. */
export interface Turn extends Disposable {
  readonly number: number;
}

function turnsIn(directory: string): number[] {
  return readdirSync(directory)
    .filter((name) => /^\d+$/.test(name))
    .map(Number)
    .sort((a, b) => b - a);
}

/**
 * Takes the turn if nobody has it. Node knows no file lock, and a lock file that is taken over from a dead holder can
 * be taken over twice. So turns have numbers: the next number is linked into place, which only one process can do, and
 * the highest one is never deleted, only marked as released.
 *
 * @returns null when another process has the turn or was quicker.
 * @throws EmbeddedRedisError `elsewhere` when a process of another machine or container has it.
 */
export function tryTurn(directory: string): Turn | null {
  mkdirSync(directory, { recursive: true, mode: 0o700 });
  const [highest = 0] = turnsIn(directory);
  if (highest > 0) {
    const path = join(directory, `${highest}`);
    const holder = readRecord(path, turnSchema);
    if (holder === null) return null;
    if (!('released' in holder)) {
      const found = lookUp(holder);
      if (found === 'alive') return null;
      if (found === 'elsewhere') throw heldElsewhere(holder.host, path);
    }
  }
  const own = recordOf(process.pid);
  if (own === null) throw new Error('this process is not to be found in the list of processes');
  const number = highest + 1;
  const path = join(directory, `${number}`);
  const temporary = temporaryName(path);
  writeFileSync(temporary, JSON.stringify(own), { mode: 0o600 });
  try {
    linkSync(temporary, path);
  } catch (fault) {
    if ((fault as NodeJS.ErrnoException).code === 'EEXIST') return null;
    throw fault;
  } finally {
    rmSync(temporary, { force: true });
  }
  const [now = 0, ...lower] = turnsIn(directory);
  if (now > number) {
    // Others went through whole turns since the list was read.
    rmSync(path, { force: true });
    return null;
  }
  for (const old of lower) rmSync(join(directory, `${old}`), { force: true });
  return { number, [Symbol.dispose]: () => writeRecord(path, { released: true }) };
}

/** Waits for the turn. @throws EmbeddedRedisError `start_failed` when it does not come within `timeoutMs`. */
export async function takeTurn(directory: string, timeoutMs: number, signal?: AbortSignal): Promise<Turn> {
  const deadline = Date.now() + timeoutMs;
  for (;;) {
    const turn = tryTurn(directory);
    if (turn !== null) return turn;
    if (Date.now() > deadline) {
      throw new EmbeddedRedisError(
        'start_failed',
        `another process has been starting or stopping the Redis of this directory for ${timeoutMs / 1000} s (${directory})`,
      );
    }
    await delay(20, undefined, signal === undefined ? {} : { signal });
  }
}

/** The fault of a record that only another machine or container can judge. */
export function heldElsewhere(host: string, path: string): EmbeddedRedisError {
  return new EmbeddedRedisError(
    'elsewhere',
    `the Redis data are in use by another machine or container ("${host}"); share a Redis by REDIS_URL instead, ` +
      `or, if nothing runs there any more, remove ${path}`,
  );
}
