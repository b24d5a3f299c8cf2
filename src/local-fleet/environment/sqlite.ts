import sqlite, { type Database, type Statement } from 'node-sqlite3-wasm';

export type SqlValue = number | bigint | string | Uint8Array | null;
export type Connection = Database;

/** A statement did more than it may. */
export class SqlBoundError extends Error {
  constructor(message: string) {
    super(message);
    this.name = 'SqlBoundError';
  }
}

export interface SqlBounds {
  readonly maxRows: number;
  /** Milliseconds; looked at between rows, since SQLite compiled to WebAssembly cannot be interrupted. */
  readonly milliseconds: number;
}

export interface SqlOutcome {
  readonly columns: readonly string[];
  readonly rows: readonly (readonly SqlValue[])[];
  /** Rows inserted, updated or deleted. */
  readonly changes: number;
  readonly lastInsertId: number | bigint;
}

// The data lives as long as the instance, so nothing is synced, and a rollback needs a journal but no journal file. This
// build of SQLite locks by making and removing a directory, for every statement unless it may keep the lock.
const settings =
  'PRAGMA foreign_keys = ON; PRAGMA synchronous = OFF; PRAGMA journal_mode = MEMORY; PRAGMA locking_mode = EXCLUSIVE;';

/**
 * Opens a file for this connection alone, with a small cache: one process holds hundreds of instances. Readers of other
 * builds, such as Python's, may look at it between statements.
 */
export function openConnection(path: string, options: { readonly readOnly: boolean }): Connection {
  const connection = new sqlite.Database(path, { readOnly: options.readOnly, fileMustExist: true });
  connection.exec(`${settings} PRAGMA cache_size = -256;`);
  return connection;
}

/** A database in a new file or in memory (`:memory:`), to be filled. */
export function createConnection(path: string): Connection {
  const connection = new sqlite.Database(path);
  connection.exec(settings);
  return connection;
}

/** Runs `use` while SQLite itself refuses every change, whatever a statement says. */
export function whileReadOnly<T>(connection: Connection, use: () => T): T {
  connection.exec('PRAGMA query_only = ON');
  try {
    return use();
  } finally {
    connection.exec('PRAGMA query_only = OFF');
  }
}

// Rows come as objects keyed by column name, where a second column of a name would hide the first. The statement asks
// itself for those names, so it is told numbers instead: they keep every column, and in order.
interface NamedColumns {
  _getColumnNames(): string[];
}

function columnsByPosition(statement: Statement): string[] {
  const named = statement as unknown as NamedColumns;
  const names = named._getColumnNames();
  named._getColumnNames = () => names.map((_, index) => String(index));
  return names;
}

/** The columns a statement would give; none when it gives no rows. Throws what SQLite says of SQL that is wrong. */
export function columnsOf(connection: Connection, sql: string): string[] {
  const statement = connection.prepare(sql);
  try {
    return columnsByPosition(statement);
  } finally {
    statement.finalize();
  }
}

export function execute(
  connection: Connection,
  sql: string,
  values: SqlValue[] | Record<string, SqlValue>,
  bounds: SqlBounds,
): SqlOutcome {
  const deadline = performance.now() + bounds.milliseconds;
  const statement = connection.prepare(sql);
  try {
    const columns = columnsByPosition(statement);
    if (columns.length === 0) {
      const { changes, lastInsertRowid } = statement.run(values);
      return { columns, rows: [], changes, lastInsertId: lastInsertRowid };
    }
    const rows: SqlValue[][] = [];
    for (const row of statement.iterate(values)) {
      if (rows.length === bounds.maxRows)
        throw new SqlBoundError(`gives more than ${bounds.maxRows} rows: ask for fewer`);
      if (performance.now() > deadline)
        throw new SqlBoundError(`takes longer than ${bounds.milliseconds / 1000} s`);
      rows.push(Object.values(row) as SqlValue[]);
    }
    return { columns, rows, changes: 0, lastInsertId: 0 };
  } finally {
    statement.finalize();
  }
}

/**
 * A value as JSON can say it: bytes as base64, integers beyond 2^53 as digits, infinities as text. Source: rows of the
 * query call are JSON.
 */
export function toJson(value: SqlValue): string | number | null {
  if (typeof value === 'bigint') return value.toString();
  if (value instanceof Uint8Array) return Buffer.from(value).toString('base64');
  if (typeof value === 'number' && !Number.isFinite(value)) return String(value);
  return value;
}

/** A value of JSON as SQLite takes it: true as 1, lists and objects as their JSON text, for `json_each`. */
export function toSql(value: unknown): SqlValue {
  if (value === undefined || value === null) return null;
  if (typeof value === 'boolean') return value ? 1 : 0;
  if (typeof value === 'number' || typeof value === 'string' || typeof value === 'bigint') return value;
  if (value instanceof Uint8Array) return value;
  return JSON.stringify(value);
}
