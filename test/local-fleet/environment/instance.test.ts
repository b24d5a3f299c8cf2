import { readFileSync, readdirSync } from 'node:fs';
import { expect, it } from 'vitest';
import { open } from './folder.ts';

const nothing = { tables: [], fields: [], table_fields: {} };

it('a query gives columns and rows, and both of two columns with one name', async () => {
  await using opened = await open();
  const sql =
    'SELECT p.id, n.id, name, 1, picture FROM people p JOIN notes n ON n.person_id = p.id WHERE n.id = ?';
  expect(opened.database.query('seed', sql, [1], true)).toEqual({
    success: true,
    columns: ['id', 'id', 'name', '1', 'picture'],
    rows: [[1, 1, 'Ada', 1, 'AP8Q']],
    rows_affected: null,
    last_insert_id: null,
    error: null,
    message: 'Query returned 1 rows',
  });
  expect(
    opened.database.query('current', 'SELECT id, name FROM people WHERE id = 9', [], true),
  ).toMatchObject({
    columns: ['id', 'name'],
    rows: [],
  });
});

it('a query that may write changes the current database, never the seed', async () => {
  await using opened = await open();
  const { database } = opened;
  const insert = "INSERT INTO people (name) VALUES ('Bo')";
  expect(database.query('current', insert, [], true)).toMatchObject({
    success: false,
    error: 'attempt to write a readonly database',
  });
  expect(database.query('seed', insert, [], false)).toMatchObject({
    success: false,
    error: 'attempt to write a readonly database',
  });
  expect(database.query('current', insert, [], false)).toMatchObject({
    success: true,
    columns: null,
    rows: null,
    rows_affected: 1,
    last_insert_id: 3,
  });
  expect(database.query('current', 'SELECT COUNT(*) FROM people', [], true).rows).toEqual([[3]]);
  expect(database.query('seed', 'SELECT COUNT(*) FROM people', [], true).rows).toEqual([[2]]);
});

it.each([
  ['PRAGMA query_only = OFF', 'PRAGMA is not supported'],
  ["ATTACH 'other.db' AS other", 'ATTACH is not supported'],
  ["VACUUM INTO 'copy.db'", 'VACUUM is not supported'],
  ['BEGIN', 'BEGIN is not supported'],
  ['SELECT 1; DELETE FROM notes', 'one statement at a time'],
  ['SELECT :a', 'parameters are written as ?'],
  ['-- nothing', 'there is no statement'],
  ['SELECT * FROM nix', 'no such table: nix'],
])('a query that is refused is an answer: %s', async (sql, error) => {
  await using opened = await open();
  expect(opened.database.query('current', sql, [], false)).toMatchObject({
    success: false,
    error,
    message: `Query failed: ${error}`,
  });
});

it('tables are described with their columns', async () => {
  await using opened = await open();
  const tables = opened.database.describe('current');
  expect(tables.map(({ name }) => name)).toEqual(['people', 'notes', 'pairs', 'loose']);
  expect(tables[0]).toEqual({
    name: 'people',
    sql: 'CREATE TABLE people (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE)',
    columns: [
      { name: 'id', type: 'INTEGER', notnull: false, default_value: null, primary_key: true, pk: 1 },
      { name: 'name', type: 'TEXT', notnull: true, default_value: null, primary_key: false, pk: 0 },
    ],
  });
});

it('the difference names rows added, removed and changed, and not what is to be ignored', async () => {
  await using opened = await open();
  const { database } = opened;
  const write = (sql: string): unknown => database.query('current', sql, [], false);
  const clean = database.diff(nothing) as Record<string, { total_changes: number }>;
  expect(Object.values(clean).every(({ total_changes }) => total_changes === 0)).toBe(true);
  write("INSERT INTO people VALUES (3, 'Bo')");
  write("UPDATE notes SET body = 'second', stars = 4 WHERE id = 1");
  write("UPDATE pairs SET weight = 2 WHERE b = 'y'");
  write("DELETE FROM loose WHERE word = 'one'");
  const diff = database.diff({ tables: ['pairs'], fields: [], table_fields: { notes: ['stars'] } });
  expect(Object.keys(diff).sort()).toEqual(['loose', 'notes', 'people']);
  expect(diff['people']).toEqual({
    table_name: 'people',
    primary_key: ['id'],
    added_rows: [{ row_id: 3, data: { id: 3, name: 'Bo' } }],
    removed_rows: [],
    modified_rows: [],
    unchanged_count: 2,
    total_changes: 1,
  });
  expect(diff['notes']).toMatchObject({
    modified_rows: [{ row_id: 1, changes: { body: { before: 'first', after: 'second' } } }],
    total_changes: 1,
  });
  expect(diff['loose']).toMatchObject({
    primary_key: ['rowid'],
    removed_rows: [{ row_id: 1, data: { rowid: 1, word: 'one' } }],
  });
  expect(database.diff({ ...nothing, fields: ['body'] })['pairs']).toMatchObject({
    primary_key: ['a', 'b'],
    modified_rows: [{ row_id: [1, 'y'], changes: { weight: { before: 'Infinity', after: 2 } } }],
  });
});

it('a reset brings the seed back', async () => {
  await using opened = await open();
  const { database } = opened;
  database.query('current', 'DELETE FROM notes', [], false);
  database.reset();
  expect(database.query('current', 'SELECT COUNT(*) FROM notes', [], true).rows).toEqual([[2]]);
  expect(readFileSync(database.currentPath)).toEqual(readFileSync(database.seedPath));
});

it('a change is in the file once the call is answered, and a closed instance leaves no file', async () => {
  await using opened = await open();
  const { database, directory } = opened;
  const before = readFileSync(database.currentPath);
  database.query('current', "INSERT INTO loose VALUES ('three')", [], false);
  expect(readFileSync(database.currentPath)).not.toEqual(before);
  expect(readdirSync(directory)).toHaveLength(1);
  await database[Symbol.asyncDispose]();
  expect(readdirSync(directory)).toEqual([]);
  expect(database.callTool('read_note', { id: 1 })).toEqual({ error: 'The environment is closed.' });
  expect(database.query('seed', 'SELECT 1', [], true)).toMatchObject({ success: false });
});
