import { randomBytes } from 'node:crypto';
import { mkdirSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { lookUp, processRecordSchema, recordOf } from './process-record.ts';
import { readRecord, removeRecord, writeRecord } from './record-file.ts';

function directory(dataDir: string): string {
  return join(dataDir, 'users');
}

/** Notes this process as a user of the data directory's server; gives the file that says so. Call it with the turn. */
export function addUser(dataDir: string): string {
  mkdirSync(directory(dataDir), { recursive: true, mode: 0o700 });
  const path = join(directory(dataDir), `${process.pid}-${randomBytes(4).toString('hex')}.json`);
  writeRecord(path, recordOf(process.pid));
  return path;
}

/** Takes a user out. Call it with the turn. */
export function removeUser(path: string): void {
  removeRecord(path);
}

/** Whether a live process still uses the server; forgets the dead ones. Call it with the turn. */
export function hasUsers(dataDir: string): boolean {
  let live = false;
  for (const name of readdirSync(directory(dataDir))) {
    const path = join(directory(dataDir), name);
    const user = readRecord(path, processRecordSchema);
    if (user !== null && lookUp(user) === 'alive') live = true;
    else removeRecord(path);
  }
  return live;
}
