import type { IgnoreConfig, TableDescription } from './environment.ts';
import { describeTables } from './query.ts';
import { execute, toJson, type Connection } from './sqlite.ts';

type Row = Readonly<Record<string, string | number | null>>;

interface TableContent {
  readonly primaryKey: readonly string[];
  /** By the JSON of the primary key's values. */
  readonly rows: ReadonlyMap<string, Row>;
}

const quoted = (name: string): string => `"${name.replaceAll('"', '""')}"`;

/** As the vendor's SDK names rows: the primary key in its own order, else `id`, else the rowid. */
function primaryKeyOf(connection: Connection, table: TableDescription): string[] {
  const found = execute(
    connection,
    'SELECT name FROM pragma_table_info(?) WHERE pk > 0 ORDER BY pk',
    [table.name],
    { maxRows: Infinity, milliseconds: Infinity },
  ).rows.map(([name]) => String(name));
  if (found.length > 0) return found;
  return table.columns.some(({ name }) => name === 'id') ? ['id'] : ['rowid'];
}

function contentOf(connection: Connection, table: TableDescription): TableContent {
  const primaryKey = primaryKeyOf(connection, table);
  const byRowid = primaryKey[0] === 'rowid' && !table.columns.some(({ name }) => name === 'rowid');
  const { columns, rows } = execute(
    connection,
    `SELECT ${byRowid ? 'rowid, ' : ''}* FROM ${quoted(table.name)}`,
    [],
    { maxRows: Infinity, milliseconds: Infinity },
  );
  return {
    primaryKey,
    rows: new Map(
      rows.map((values) => {
        const row: Row = Object.fromEntries(
          columns.map((column, index) => [column, toJson(values[index] ?? null)]),
        );
        return [JSON.stringify(primaryKey.map((column) => row[column])), row] as const;
      }),
    ),
  };
}

/** One key as it is, several as a list. */
function rowId(row: Row, primaryKey: readonly string[]): unknown {
  const values = primaryKey.map((column) => row[column] ?? null);
  return values.length === 1 ? values[0] : values;
}

function diffTable(
  name: string,
  before: TableContent,
  after: TableContent,
  ignored: (field: string) => boolean,
): Record<string, unknown> {
  const { primaryKey } = after;
  const added: unknown[] = [];
  const removed: unknown[] = [];
  const modified: unknown[] = [];
  let unchanged = 0;
  for (const [key, row] of after.rows) {
    const old = before.rows.get(key);
    if (old === undefined) {
      added.push({ row_id: rowId(row, primaryKey), data: row });
      continue;
    }
    const fields = [...new Set([...Object.keys(old), ...Object.keys(row)])].filter(
      (field) => !ignored(field) && (old[field] ?? null) !== (row[field] ?? null),
    );
    if (fields.length === 0) unchanged += 1;
    else
      modified.push({
        row_id: rowId(row, primaryKey),
        changes: Object.fromEntries(
          fields.map((field) => [field, { before: old[field] ?? null, after: row[field] ?? null }]),
        ),
        data: row,
      });
  }
  for (const [key, row] of before.rows)
    if (!after.rows.has(key)) removed.push({ row_id: rowId(row, primaryKey), data: row });
  return {
    table_name: name,
    primary_key: primaryKey,
    added_rows: added,
    removed_rows: removed,
    modified_rows: modified,
    unchanged_count: unchanged,
    total_changes: added.length + removed.length + modified.length,
  };
}

const empty: TableContent = { primaryKey: [], rows: new Map() };

/** Every table that is not ignored, in the shape of the structured diff call of the vendor's SDK. */
export function diffDatabases(
  seed: Connection,
  current: Connection,
  ignore: IgnoreConfig,
): Record<string, unknown> {
  const before = new Map(describeTables(seed).map((table) => [table.name, table]));
  const after = new Map(describeTables(current).map((table) => [table.name, table]));
  const report: Record<string, unknown> = {};
  for (const name of new Set([...before.keys(), ...after.keys()])) {
    if (ignore.tables.includes(name)) continue;
    const old = before.get(name);
    const now = after.get(name);
    const was = old === undefined ? empty : contentOf(seed, old);
    const is = now === undefined ? { ...empty, primaryKey: was.primaryKey } : contentOf(current, now);
    const fields = Object.hasOwn(ignore.table_fields, name) ? (ignore.table_fields[name] ?? []) : [];
    report[name] = diffTable(
      name,
      was,
      is,
      (field) => ignore.fields.includes(field) || fields.includes(field),
    );
  }
  return report;
}
