import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { loadEnvironment, loadEnvironments } from '../../../src/local-fleet/environment/index.ts';
import { environmentJson, readNote, seedSql, temporary, writeFolder, type Files } from './folder.ts';

async function fault(files: Files): Promise<string> {
  await using folder = await temporary();
  await writeFolder(folder.path, files);
  const message = await loadEnvironment(folder.path).then(
    () => 'loaded',
    (error: Error) => error.message,
  );
  expect(message).not.toContain('\n');
  return message.replace(`${folder.path}/`, '');
}

const toolsWith = (more: object): Files => ({ 'tools.json': { tools: [{ ...readNote, ...more }] } });
const stepsOf = (...steps: object[]): Files => toolsWith({ steps });
const step = (more: object): Files => stepsOf({ as: 'note', sql: 'SELECT 1 AS id', ...more });

describe('a folder that defines no environment is told with file and field', () => {
  it.each<[Files, string]>([
    [{ 'environment.json': undefined }, 'environment.json: is missing'],
    [{ 'environment.json': '{"a":' }, 'environment.json: is not JSON'],
    [{ 'environment.json': { ...environmentJson, version: '1.0' } }, 'environment.json: version: must begin'],
    [
      { 'environment.json': { ...environmentJson, default_data_key: 'big' } },
      'environment.json: default_data_key: is not a key of data',
    ],
    [
      { 'environment.json': { ...environmentJson, data: { small: { version: 'v1', seed: ['../x.sql'] } } } },
      'environment.json: data.small.seed[0]: must be a file inside the folder',
    ],
    [{ 'environment.json': { ...environmentJson, extra: 1 } }, 'environment.json: Unrecognized key: "extra"'],
    [{ 'schema.sql': undefined }, 'schema.sql: is missing'],
    [{ 'schema.sql': 'CREATE TABEL x (id)' }, 'schema.sql: near "TABEL": syntax error'],
    [{ 'seed/small.sql': undefined }, 'seed/small.sql: is missing'],
    [{ 'seed/small.sql': `${seedSql} INSERT INTO people VALUES (1, 'Bo')` }, 'seed/small.sql: UNIQUE'],
    [{ 'seed/small.sql': 'BEGIN; DELETE FROM notes;' }, 'seed/small.sql: begins a transaction'],
    [
      {
        'seed/small.sql':
          "PRAGMA foreign_keys = OFF; INSERT INTO notes (id, person_id) VALUES (7, 99); INSERT INTO loose VALUES ('a');",
      },
      'seed/small.sql: row 7 of notes refers to a row of people that is not there',
    ],
    [{ 'tools.json': undefined }, 'tools.json: is missing'],
    [{ 'tools.json': { tools: [readNote, readNote] } }, 'tools.json: tools: two tools have one name'],
    [toolsWith({ name: 'read note' }), 'tools.json: tools[0].name: must be 1 to 64 letters'],
    [
      toolsWith({ input_schema: { type: 'object', properties: { id: { type: 'nonsense' } } } }),
      'tools.json: tools[0].input_schema: Unsupported type: nonsense',
    ],
    [step({ sql: 'SELEC 1' }), 'tools.json: tools[0].steps[0].sql: must be SELECT, INSERT'],
    [step({ sql: 'SELECT nix AS id FROM notes' }), 'tools.json: tools[0].steps[0].sql: no such column: nix'],
    [step({ sql: 'SELECT 1 AS id; DELETE FROM notes' }), 'steps[0].sql: must be one statement'],
    [step({ sql: 'PRAGMA foreign_keys = OFF' }), 'steps[0].sql: must be SELECT, INSERT'],
    [step({ sql: 'SELECT ? AS id' }), 'steps[0].sql: takes named parameters'],
    [step({ sql: 'SELECT :nix AS id' }), 'steps[0].sql: :nix is no property of input_schema'],
    [step({ sql: 'SELECT @NIX AS id' }), 'steps[0].sql: @NIX is no variable of environment.json'],
    [step({ sql: 'SELECT $note_id AS id' }), 'steps[0].sql: $note_id: no step before is called note'],
    [step({ sql: 'SELECT 1 AS id, 2 AS id' }), 'steps[0].sql: two columns are called id'],
    [step({ json: ['tags'] }), 'steps[0].json: there is no column tags'],
    [step({ expect: 'row' }), 'steps[0]: expect and error belong together'],
    [step({ expect: 'row', error: '{:nix}' }), 'steps[0].error: :nix is no property'],
    [step({ expect: 'change', error: 'x' }), 'steps[0].expect: a statement that only reads'],
    [
      stepsOf({ as: 'note', sql: 'DELETE FROM notes', expect: 'row', error: 'x' }),
      'steps[0].expect: the statement gives no rows',
    ],
    [
      stepsOf({ as: 'note', sql: 'SELECT 1 AS id' }, { sql: 'SELECT $note_nix AS x' }),
      'steps[1].sql: $note_nix: step note has no column nix',
    ],
    [
      stepsOf({ as: 'note', sql: 'SELECT 1 AS a' }, { as: 'note', sql: 'SELECT 2 AS b' }),
      'steps[1].as: another step is called note',
    ],
    [toolsWith({ answer: { rows: 'nix' } }), 'tools[0].answer.rows: no step is called nix'],
    [
      toolsWith({ answer: { value: 'note', column: 'nix' } }),
      'tools[0].answer.column: step note has no column',
    ],
    [
      toolsWith({ answer: { object: { a: { text: '{$note_nix}' } } } }),
      'tools[0].answer.object.a.text: $note',
    ],
    [toolsWith({ answer: {} }), 'tools[0].answer: must be one of'],
  ])('%#: %j', async (files, expected) => {
    expect(await fault(files)).toContain(expected);
  });
});

it('a folder of folders gives each environment, and its versions', async () => {
  await using folder = await temporary();
  await writeFolder(join(folder.path, 'a'), {});
  await writeFolder(join(folder.path, 'b'), {
    'environment.json': { ...environmentJson, version: 'v2.0.0' },
  });
  const found = await loadEnvironments(folder.path);
  expect(found.map(({ env_key, version }) => `${env_key}:${version}`)).toEqual([
    'notes:v1.0.0',
    'notes:v2.0.0',
  ]);
  expect(await loadEnvironments(join(folder.path, 'a'))).toHaveLength(1);

  await writeFolder(join(folder.path, 'c'), {});
  await expect(loadEnvironments(folder.path)).rejects.toThrow(
    'c/environment.json: another folder is notes:v1.0.0',
  );
});

it('a folder without any environment, or none at all, is one clear line', async () => {
  await using folder = await temporary();
  await expect(loadEnvironments(folder.path)).rejects.toThrow('holds no environment.json');
  await expect(loadEnvironments(join(folder.path, 'nix'))).rejects.toThrow('(ENOENT)');
});

it('an instance is refused data it does not have, and a variable nobody named', async () => {
  await using folder = await temporary();
  await writeFolder(folder.path, {});
  const environment = await loadEnvironment(folder.path);
  const options = { directory: folder.path, variables: { LOGGED_IN_USER: 1 } };
  await expect(environment.open({ ...options, data_key: 'big' })).rejects.toThrow(
    'environment notes has no data big (it has small)',
  );
  await expect(environment.open({ ...options, data_key: 'small', variables: {} })).rejects.toThrow(
    'env_variables must name LOGGED_IN_USER',
  );
});

it('seeds as a dump of sqlite3 writes them are taken', async () => {
  await using folder = await temporary();
  const dump = `PRAGMA foreign_keys=OFF; BEGIN TRANSACTION; ${seedSql} COMMIT;`;
  await writeFolder(folder.path, { 'seed/small.sql': dump });
  expect((await loadEnvironment(folder.path)).data).toEqual(new Map([['small', 'v1.0.0']]));
});
