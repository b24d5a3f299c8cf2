import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { EnvironmentFolderError } from './folder-error.ts';
import { createConnection, execute, type Connection } from './sqlite.ts';

/** A file of SQL and what it is called in errors. */
export interface SqlFile {
  readonly name: string;
  readonly sql: string;
}

/** Runs a file's statements. Throws EnvironmentFolderError with the file's name and SQLite's words. */
export function runSqlFile(connection: Connection, file: SqlFile): void {
  try {
    connection.exec(file.sql);
  } catch (cause) {
    throw new EnvironmentFolderError(`${file.name}: ${(cause as Error).message}`, cause);
  }
  if (connection.inTransaction)
    throw new EnvironmentFolderError(`${file.name}: begins a transaction that it does not commit`);
}

function checkForeignKeys(connection: Connection, file: SqlFile): void {
  const broken = execute(connection, 'PRAGMA foreign_key_check', [], {
    maxRows: Infinity,
    milliseconds: Infinity,
  });
  const [first] = broken.rows;
  if (first === undefined) return;
  const [table, row, parent] = first;
  const more = broken.rows.length > 1 ? ` (and ${broken.rows.length - 1} more)` : '';
  throw new EnvironmentFolderError(
    `${file.name}: row ${String(row)} of ${String(table)} refers to a row of ${String(parent)} that is not there${more}`,
  );
}

/** The bytes of a database with this schema and these seeds: instances are copies of it. */
export async function seedDatabase(schema: SqlFile, seeds: readonly SqlFile[]): Promise<Uint8Array> {
  const directory = await mkdtemp(join(tmpdir(), `rollpool-seed-${process.pid}-`));
  try {
    const path = join(directory, 'seed.db');
    const connection = createConnection(path);
    try {
      runSqlFile(connection, schema);
      for (const seed of seeds) runSqlFile(connection, seed);
      checkForeignKeys(connection, seeds.at(-1) ?? schema);
    } finally {
      connection.close();
    }
    return await readFile(path);
  } finally {
    await rm(directory, { recursive: true, force: true });
  }
}
