import { copyFileSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import sqlite from 'node-sqlite3-wasm';
import type {
  EnvironmentDatabase,
  LocalEnvironment,
  LocalTool,
  LocalToolOutcome,
  QueryOutcome,
} from '../../../src/local-fleet/environment/environment.ts';

const object = (properties: Record<string, unknown>): Record<string, unknown> => ({
  type: 'object',
  properties,
  required: Object.keys(properties),
});

const tools: readonly LocalTool[] = [
  { name: 'add_note', description: 'Adds a note.', inputSchema: object({ text: { type: 'string' } }) },
  { name: 'list_notes', description: 'Lists the notes.', inputSchema: object({}) },
  { name: 'computer', description: 'Drives the screen.', inputSchema: object({}) },
];

const failed = (error: string): QueryOutcome => ({
  success: false,
  columns: null,
  rows: null,
  rows_affected: null,
  last_insert_id: null,
  error,
  message: error,
});

function open(directory: string): EnvironmentDatabase {
  const seedPath = join(directory, 'seed.sqlite');
  const currentPath = join(directory, 'current.sqlite');
  const seed = new sqlite.Database(seedPath);
  seed.exec(
    "CREATE TABLE notes (id INTEGER PRIMARY KEY, text TEXT); INSERT INTO notes (text) VALUES ('milk')",
  );
  copyFileSync(seedPath, currentPath);
  let current = new sqlite.Database(currentPath);
  const notes = (of: InstanceType<typeof sqlite.Database>): unknown[] =>
    of.all('SELECT id, text FROM notes ORDER BY id');
  return {
    seedPath,
    currentPath,
    callTool(name, args): LocalToolOutcome {
      if (name === 'list_notes') return { value: notes(current) };
      if (name === 'computer') return { value: 'a click' };
      if (typeof args['text'] !== 'string') return { error: 'text is required' };
      current.run('INSERT INTO notes (text) VALUES (?)', [args['text']]);
      return { value: { added: args['text'] } };
    },
    query(database, sql, args, readOnly): QueryOutcome {
      if (readOnly && !/^\s*select/i.test(sql)) return failed('attempt to write a readonly database');
      try {
        const rows = (database === 'seed' ? seed : current).all(sql, args as string[]);
        return {
          ...failed(''),
          success: true,
          columns: Object.keys(rows[0] ?? {}),
          rows: rows.map((row) => Object.values(row)),
          error: null,
          message: 'ok',
        };
      } catch (error) {
        return failed(String(error));
      }
    },
    describe: () => [
      {
        name: 'notes',
        sql: 'CREATE TABLE notes (id INTEGER PRIMARY KEY, text TEXT)',
        columns: [{ name: 'id' }],
      },
    ],
    diff: ({ tables }) =>
      tables.includes('notes') ? {} : { notes: { seed: notes(seed), current: notes(current) } },
    reset() {
      current.close();
      copyFileSync(seedPath, currentPath);
      current = new sqlite.Database(currentPath);
    },
    async [Symbol.asyncDispose]() {
      seed.close();
      current.close();
      await rm(directory, { recursive: true, force: true });
    },
  };
}

/** Notes in a real SQLite file: an environment small enough to see through. */
export const notesEnvironment: LocalEnvironment = {
  env_key: 'notes',
  version: 'v1.0.0',
  name: 'Notes',
  description: 'Notes, and nothing else.',
  default_data_key: 'shopping',
  data: new Map([['shopping', 'v0.0.1']]),
  tools,
  open: async ({ directory }) => open(directory),
};
