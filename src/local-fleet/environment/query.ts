import type { QueryOutcome, TableDescription } from './environment.ts';
import { scanSql } from './sql-scan.ts';
import { execute, toJson, toSql, type Connection, type SqlBounds } from './sqlite.ts';

// PRAGMA is not part of the wire; ATTACH and VACUUM INTO reach other files; transactions are the server's.
const allowed = new Set([
  ...['SELECT', 'WITH', 'VALUES', 'EXPLAIN'],
  ...['INSERT', 'REPLACE', 'UPDATE', 'DELETE', 'CREATE', 'DROP', 'ALTER'],
]);

export function failedQuery(error: string): QueryOutcome {
  return {
    success: false,
    columns: null,
    rows: null,
    rows_affected: null,
    last_insert_id: null,
    error,
    message: `Query failed: ${error}`,
  };
}

/** Runs one statement as the query call of the wire does. Never throws. */
export function runQuery(
  connection: Connection,
  sql: string,
  args: readonly unknown[],
  bounds: SqlBounds,
): QueryOutcome {
  const { keyword, several, parameters } = scanSql(sql);
  if (keyword === '') return failedQuery('there is no statement');
  if (!allowed.has(keyword)) return failedQuery(`${keyword} is not supported`);
  if (several) return failedQuery('one statement at a time');
  if (parameters.length > 0) return failedQuery('parameters are written as ?');
  try {
    const { columns, rows, changes, lastInsertId } = execute(connection, sql, args.map(toSql), bounds);
    const reads = columns.length > 0;
    return {
      success: true,
      columns: reads ? columns : null,
      rows: reads ? rows.map((row) => row.map(toJson)) : null,
      rows_affected: reads ? null : changes,
      last_insert_id: reads ? null : Number(lastInsertId),
      error: null,
      message: reads ? `Query returned ${rows.length} rows` : `Query changed ${changes} rows`,
    };
  } catch (error) {
    return failedQuery((error as Error).message);
  }
}

const noBounds: SqlBounds = { maxRows: Infinity, milliseconds: Infinity };

export function describeTables(connection: Connection): TableDescription[] {
  const tables = execute(
    connection,
    "SELECT name, sql FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' ORDER BY rowid",
    [],
    noBounds,
  );
  return tables.rows.map(([name, sql]) => ({
    name: String(name),
    sql: String(sql),
    columns: execute(
      connection,
      'SELECT name, type, "notnull", dflt_value, pk FROM pragma_table_info(?) ORDER BY cid',
      [String(name)],
      noBounds,
    ).rows.map(([column, type, notNull, defaultValue, primaryKey]) => ({
      name: column,
      type,
      notnull: notNull !== 0,
      default_value: defaultValue,
      primary_key: Number(primaryKey) > 0,
      // Its place in the key, from 1: the vendor's SDK asks for it when it compares tables with a key of several columns.
      pk: Number(primaryKey),
    })),
  }));
}
