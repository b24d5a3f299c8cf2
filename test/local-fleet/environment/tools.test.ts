import { expect, it } from 'vitest';
import { open, readNote } from './folder.ts';

const object = (properties: object, required: string[] = []): object => ({
  type: 'object',
  properties,
  required,
  additionalProperties: false,
});

const addNote = {
  name: 'add_note',
  description: 'Writes a note for a person.',
  input_schema: object(
    {
      person: { type: 'string' },
      body: { type: 'string' },
      stars: { type: 'integer', default: 1 },
      tags: { type: 'array', items: { type: 'string' }, default: [] },
      loud: { type: 'boolean' },
    },
    ['person'],
  ),
  steps: [
    {
      as: 'person',
      sql: 'SELECT id, name FROM people WHERE name = :person',
      expect: 'row',
      error: 'Nobody is called {:person}.',
    },
    {
      as: 'note',
      sql: [
        'INSERT INTO notes (person_id, body, stars, tags, written_on)',
        "VALUES ($person_id, CASE WHEN :loud THEN upper(:body) ELSE :body END, :stars, :tags, @CURRENT_DATE || '/' || @LOGGED_IN_USER)",
        'RETURNING id, written_on',
      ],
    },
    {
      as: 'many',
      sql: 'SELECT COUNT(*) AS count FROM notes WHERE person_id = $person_id HAVING COUNT(*) > 3',
      expect: 'no_row',
      error: '{$person_name} has {$many_count} notes; 3 is the limit.',
    },
  ],
  answer: {
    object: {
      id: { value: 'note', column: 'id' },
      written_on: { value: 'note', column: 'written_on' },
      said: { text: 'Note {$note_id} for {$person_name}' },
    },
  },
};

const listNotes = {
  name: 'list_notes',
  description: 'Lists notes.',
  input_schema: object({ tags: { type: 'array', items: { type: 'string' } }, limit: { type: 'integer' } }),
  steps: [
    {
      as: 'notes',
      json: ['tags'],
      sql: 'SELECT id, body, tags FROM notes WHERE :tags IS NULL OR EXISTS (SELECT 1 FROM json_each(tags) t JOIN json_each(:tags) w ON w.value = t.value) ORDER BY id LIMIT COALESCE(:limit, -1)',
    },
  ],
  answer: { rows: 'notes' },
};

const starAll = {
  name: 'star_all',
  description: 'Gives every note of a person stars.',
  input_schema: object({ person_id: { type: 'integer' }, stars: { type: 'number' } }, ['person_id', 'stars']),
  steps: [
    {
      as: 'done',
      sql: 'UPDATE notes SET stars = :stars WHERE person_id = :person_id',
      expect: 'change',
      error: 'Person {:person_id} has no notes.',
    },
    { as: 'gone', sql: 'DELETE FROM loose RETURNING word' },
  ],
  answer: { object: { changed: { changes: 'done' }, words: { changes: 'gone' } } },
};

const tools = [readNote, addNote, listNotes, starAll];

it('values of the arguments, of the variables and of earlier steps reach the statements', async () => {
  await using opened = await open(tools);
  const { database } = opened;
  const added = database.callTool('add_note', {
    person: 'Zoë 🚲',
    body: 'tyre',
    tags: ['a', 'ü'],
    loud: true,
  });
  expect(added).toEqual({ value: { id: 3, written_on: '2026-03-16/2', said: 'Note 3 for Zoë 🚲' } });
  expect(database.callTool('list_notes', { tags: ['ü'] })).toEqual({
    value: [{ id: 3, body: 'TYRE', tags: ['a', 'ü'] }],
  });
  const { rows } = database.query('current', 'SELECT stars FROM notes WHERE id = ?', [3], true);
  expect(rows).toEqual([[1]]);
});

it('an argument that is not given is NULL', async () => {
  await using opened = await open(tools);
  expect(opened.database.callTool('add_note', { person: 'Ada' })).toMatchObject({ value: { id: 3 } });
  const { rows } = opened.database.query('current', 'SELECT body, tags FROM notes WHERE id = 3', [], true);
  expect(rows).toEqual([[null, '[]']]);
});

it('a check that does not hold is the answer, and takes back what came before it', async () => {
  await using opened = await open(tools);
  const { database } = opened;
  expect(database.callTool('add_note', { person: 'Bo' })).toEqual({ error: 'Nobody is called Bo.' });
  const notes = [1, 2, 3].map(() => database.callTool('add_note', { person: 'Ada' }));
  expect(notes.map((note) => 'error' in note)).toEqual([false, false, true]);
  expect(notes[2]).toEqual({ error: 'Ada has 4 notes; 3 is the limit.' });
  expect(database.query('current', 'SELECT COUNT(*) FROM notes', [], true).rows).toEqual([[4]]);
});

it('a constraint of the schema is the answer, and takes back what came before it', async () => {
  await using opened = await open(tools);
  const { database } = opened;
  const outcome = database.callTool('star_all', { person_id: 1, stars: -1 });
  expect(outcome).toEqual({ error: 'star_all failed: CHECK constraint failed: stars >= 0' });
  expect(database.callTool('star_all', { person_id: 9, stars: 1 })).toEqual({
    error: 'Person 9 has no notes.',
  });
  expect(database.query('current', 'SELECT COUNT(*) FROM loose', [], true).rows).toEqual([[2]]);
  expect(database.callTool('star_all', { person_id: 1, stars: 5 })).toEqual({
    value: { changed: 1, words: 2 },
  });
});

it('what a model writes is only ever a value', async () => {
  await using opened = await open(tools);
  const { database } = opened;
  const body = "'); DROP TABLE notes; --{:person} $person_id";
  database.callTool('add_note', { person: 'Ada', body });
  expect(database.callTool('read_note', { id: 3 })).toMatchObject({ value: { body } });
  expect(database.callTool('add_note', { person: "' OR 1=1 --{@LOGGED_IN_USER}" })).toEqual({
    error: "Nobody is called ' OR 1=1 --{@LOGGED_IN_USER}.",
  });
});

it.each([
  [{}, 'Invalid arguments: person is required'],
  [{ person: 1 }, 'Invalid arguments: person: Invalid input: expected string, received number'],
  [
    { person: 'Ada', stars: '3' },
    'Invalid arguments: stars: Invalid input: expected number, received string',
  ],
  [{ person: 'Ada', stars: 1.5 }, 'Invalid arguments: stars: Invalid input: expected int, received number'],
  [{ person: 'Ada', tags: ['a', 1] }, 'Invalid arguments: tags[1]: Invalid input: expected string'],
  [
    { person: 'Ada', who: 1 },
    'Invalid arguments: there is no argument who (arguments: person, body, stars, tags, loud)',
  ],
  [{ person: 'A\0' }, 'Invalid arguments: person: holds a NUL'],
  [{ person: 'Ada', tags: ['\ud83d'] }, 'Invalid arguments: tags[0]: holds a NUL or half a surrogate pair'],
])('arguments that do not fit are told so that a model can mend them: %j', async (args, expected) => {
  await using opened = await open(tools);
  const outcome = opened.database.callTool('add_note', args);
  expect('error' in outcome && outcome.error).toContain(expected);
});

it('a tool that is not there, and one that gives too much, say so', async () => {
  await using opened = await open(tools);
  const { database } = opened;
  expect(database.callTool('nix', {})).toEqual({ error: 'There is no tool nix.' });
  for (const person of ['Ada', 'Zoë 🚲', 'Ada', 'Zoë 🚲']) database.callTool('add_note', { person });
  expect(database.callTool('list_notes', {})).toEqual({
    error: 'list_notes failed: gives more than 5 rows: ask for fewer',
  });
  expect(database.callTool('list_notes', { limit: 5 })).toMatchObject({ value: { length: 5 } });
});

it('bytes, NULL, and integers and floats beyond JSON come as what JSON can say', async () => {
  await using opened = await open(tools);
  const { database } = opened;
  expect(database.callTool('read_note', { id: 1 })).toEqual({
    value: {
      ...{ id: 1, person_id: 1, body: 'first', tags: [], stars: 3 },
      ...{ picture: 'AP8Q', written_on: null },
    },
  });
  expect(database.callTool('read_note', { id: 2 })).toMatchObject({
    value: { body: null, stars: '9007199254740993' },
  });
});
