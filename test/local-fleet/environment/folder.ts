import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import type { EnvironmentDatabase } from '../../../src/local-fleet/environment/environment.ts';
import { loadEnvironment } from '../../../src/local-fleet/environment/index.ts';

export const environmentJson = {
  schema: 'rollpool.environment/1',
  env_key: 'notes',
  version: 'v1.0.0',
  name: 'Notes',
  default_data_key: 'small',
  data: { small: { version: 'v1.0.0' } },
  variables: { CURRENT_DATE: { default: '2026-03-16' }, LOGGED_IN_USER: {} },
  max_rows: 5,
};

export const schemaSql = `
  CREATE TABLE people (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE);
  CREATE TABLE notes (
    id INTEGER PRIMARY KEY,
    person_id INTEGER NOT NULL REFERENCES people (id),
    body TEXT,
    tags TEXT NOT NULL DEFAULT '[]',
    stars INTEGER CHECK (stars >= 0),
    picture BLOB,
    written_on TEXT
  );
  CREATE TABLE pairs (a INTEGER, b TEXT, weight REAL, PRIMARY KEY (a, b));
  CREATE TABLE loose (word TEXT);
`;

export const seedSql = `
  INSERT INTO people VALUES (1, 'Ada'), (2, 'Zoë 🚲');
  INSERT INTO notes (id, person_id, body, stars, picture) VALUES
    (1, 1, 'first', 3, x'00ff10'), (2, 2, NULL, 9007199254740993, NULL);
  INSERT INTO pairs VALUES (1, 'x', 0.5), (1, 'y', 9e999);
  INSERT INTO loose VALUES ('one'), ('two');
`;

export const readNote = {
  name: 'read_note',
  description: 'Reads a note.',
  input_schema: { type: 'object', properties: { id: { type: 'integer' } }, required: ['id'] },
  steps: [
    {
      as: 'note',
      sql: 'SELECT * FROM notes WHERE id = :id',
      json: ['tags'],
      expect: 'row',
      error: 'There is no note {:id}.',
    },
  ],
  answer: { row: 'note' },
};

export type Files = Readonly<Record<string, unknown>>;

/** Writes a folder; what is no text becomes JSON, undefined leaves a file out. */
export async function writeFolder(directory: string, files: Files): Promise<void> {
  const all: Files = {
    'environment.json': environmentJson,
    'schema.sql': schemaSql,
    'seed/small.sql': seedSql,
    'tools.json': { tools: [readNote] },
    ...files,
  };
  for (const [name, content] of Object.entries(all)) {
    if (content === undefined) continue;
    const path = join(directory, name);
    await mkdir(dirname(path), { recursive: true });
    await writeFile(path, typeof content === 'string' ? content : JSON.stringify(content));
  }
}

export interface Temporary extends AsyncDisposable {
  readonly path: string;
}

export async function temporary(): Promise<Temporary> {
  const path = await mkdtemp(join(tmpdir(), `rp-environment-${process.pid}-`));
  return { path, [Symbol.asyncDispose]: () => rm(path, { recursive: true, force: true }) };
}

export interface Opened extends AsyncDisposable {
  readonly database: EnvironmentDatabase;
  readonly directory: string;
}

/** An instance of an environment with these tools. */
export async function open(tools: readonly unknown[] = [readNote]): Promise<Opened> {
  const folder = await temporary();
  await writeFolder(folder.path, { 'tools.json': { tools } });
  const environment = await loadEnvironment(folder.path);
  const directory = join(folder.path, 'instances');
  const database = await environment.open({
    directory,
    data_key: 'small',
    variables: { LOGGED_IN_USER: '2' },
  });
  return {
    database,
    directory,
    async [Symbol.asyncDispose]() {
      await database[Symbol.asyncDispose]();
      await folder[Symbol.asyncDispose]();
    },
  };
}
