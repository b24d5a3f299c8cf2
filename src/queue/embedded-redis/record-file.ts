import { randomBytes } from 'node:crypto';
import { readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import type { z } from 'zod';

/** A name beside `path` that no other writer uses. */
export function temporaryName(path: string): string {
  return `${path}.${process.pid}-${randomBytes(4).toString('hex')}.tmp`;
}

/** Writes a small JSON file so that a reader sees the old or the new one, never a part. */
export function writeRecord(path: string, record: unknown): void {
  const temporary = temporaryName(path);
  writeFileSync(temporary, JSON.stringify(record), { mode: 0o600 });
  renameSync(temporary, path);
}

/** Reads such a file; null when it is missing or not what `schema` says. */
export function readRecord<T>(path: string, schema: z.ZodType<T>): T | null {
  try {
    return schema.parse(JSON.parse(readFileSync(path, 'utf8')));
  } catch {
    return null;
  }
}

export function removeRecord(path: string): void {
  rmSync(path, { force: true });
}
