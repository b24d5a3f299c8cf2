import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { normaliseTask, type FieldFault } from '../../producer/index.ts';
import { fleetTaskSchema, type Task } from '../../src/contracts/index.ts';

const code = 'def validate_task(env, final_answer=None):\n    return 1\n';
/** The normal form; what each of the shapes below must come to. */
const normal = {
  task_key: 'task_isk4',
  kind: 'fleet',
  prompt: 'Book a hotel',
  env_key: 'booking',
  env_version: 'v0.0.74',
  data_key: 'kinesis',
  data_version: 'v0.0.14',
  region: null,
  image_type: null,
  env_variables: {},
  verifier_code: code,
  verifier_id: null,
  verifier_runtime_version: null,
  modality: 'tool_use',
  limits: {},
  metadata: {},
};
/** The array of `key, prompt, ...` with eight keys. */
const eightKeys = {
  key: 'task_isk4',
  prompt: 'Book a hotel',
  env_id: 'booking',
  version: 'v0.0.74',
  data_id: 'kinesis',
  data_version: 'v0.0.14',
  verifier_func: code,
  task_modality: 'tool_use',
};
/** One task of the vendor's `model_dump`. */
const dumped = {
  key: 'task_isk4',
  prompt: 'Book a hotel',
  env_id: 'booking',
  env_variables: { CURRENT_DATE: '2026-01-12' },
  created_at: '2026-01-12T08:43:21',
  version: 'v0.0.74',
  data_id: 'kinesis',
  data_version: 'v0.0.14',
  verifier_func: code,
  verifier_id: 'uuid',
  verifier_sha: 'abc',
  verifier_runtime_version: null,
  metadata: { set: 'a' },
  output_json_schema: null,
};
/** One task of a training export. */
const training = {
  task_key: 'task_isk4',
  prompt: 'Book a hotel',
  env_key: 'booking',
  env_version: 'v0.0.74',
  data_key: 'kinesis',
  data_version: 'v0.0.14',
  env_variables: '{"LOGGED_IN_USER": "1"}',
  verifier_code: code,
  task_modality: 'tool_use',
  difficulty: 2,
};
/** One task as the vendor's API answers it. */
const answered = {
  key: 'task_isk4',
  prompt: 'Book a hotel',
  team_id: 'team',
  environment_id: 'booking',
  created_at: '2026-01-12T08:43:21',
  version: 'v0.0.74',
  data_id: 'kinesis',
  data_version: 'v0.0.14',
  verifier: { verifier_id: 'uuid', key: 'vkey', version: 3, sha256: 'abc', code, created_at: '2026-01-01' },
  metadata: { verifier_runtime_version: 'py311' },
};

function taskOf(value: unknown): Task {
  const normalised = normaliseTask(value);
  if ('faults' in normalised) throw new Error(JSON.stringify(normalised.faults));
  return normalised.task;
}

function faultsOf(value: unknown): readonly FieldFault[] {
  const normalised = normaliseTask(value);
  return 'faults' in normalised ? normalised.faults : [];
}

const without = (task: object, ...names: string[]): object =>
  Object.fromEntries(Object.entries(task).filter(([name]) => !names.includes(name)));

describe('a fleet task', () => {
  it.each([
    ['of the eight keys', eightKeys, {}],
    [
      'dumped by the SDK',
      dumped,
      {
        env_variables: { CURRENT_DATE: '2026-01-12' },
        verifier_id: 'uuid',
        metadata: { set: 'a', created_at: '2026-01-12T08:43:21', verifier_sha: 'abc' },
      },
    ],
    [
      'of a training export',
      training,
      { env_variables: { LOGGED_IN_USER: '1' }, metadata: { difficulty: 2 } },
    ],
    [
      'answered by the API',
      answered,
      {
        verifier_id: 'uuid',
        verifier_runtime_version: 'py311',
        metadata: {
          verifier_runtime_version: 'py311',
          verifier: { key: 'vkey', version: 3, sha256: 'abc', created_at: '2026-01-01' },
          team_id: 'team',
          created_at: '2026-01-12T08:43:21',
        },
      },
    ],
    ['in its normal form', normal, {}],
  ])('%s comes to the normal form', (_what, raw, differs) => {
    const task = taskOf(raw);
    expect(task).toEqual({ ...normal, ...differs });
    expect(fleetTaskSchema.parse(task)).toEqual(task);
    expect(taskOf(task)).toEqual(task);
  });

  it.each([
    ['a version inside its key', { env_id: 'booking:v0.0.74', version: null }, {}],
    ['a version inside its key and the same beside it', { env_id: 'booking:0.0.74' }, {}],
    ['a version that starts with a digit', { version: '0.0.74', data_version: '0.0.14' }, {}],
    [
      'a second colon, which is of the version',
      { env_id: 'booking:v1:beta', version: null },
      { env_version: 'v1:beta' },
    ],
    ['"None" for a version', { version: 'None' }, { env_version: null }],
    ['an empty version', { version: '' }, { env_version: null }],
    ['a colon and no version', { env_id: 'booking:', version: null }, { env_version: null }],
    ['data with its version in one', { data_id: 'kinesis:0.0.14', data_version: null }, {}],
    ['no data', { data_id: '', data_version: '' }, { data_key: null, data_version: null }],
    [
      'two names of one thing that agree',
      { task_key: 'task_isk4', env_key: 'booking', modality: 'tool_use' },
      {},
    ],
    ['two versions that agree', { env_version: '0.0.74' }, {}],
    ['its id for a key', { key: null, id: 'task_isk4' }, {}],
    ['empty environment variables', { env_variables: '' }, {}],
    ['null as the text of its environment variables', { env_variables: 'null' }, {}],
    ['a runtime', { metadata: { verifier_runtime_version: '3' } }, { verifier_runtime_version: '3' }],
    [
      'an id of its verifier in its metadata',
      { verifier_func: null, metadata: { verifier: { verifier_id: 'uuid' } } },
      { verifier_code: null, verifier_id: 'uuid', metadata: { verifier: { verifier_id: 'uuid' } } },
    ],
    [
      'an error for code, and an id',
      { verifier_func: null, verifier: { verifier_id: 'uuid', code: ' <error loading code: NoSuchKey>' } },
      { verifier_code: null, verifier_id: 'uuid' },
    ],
    [
      'an error for code in one place and the code in another',
      { verifier: { code: '<error loading code: NoSuchKey>' } },
      {},
    ],
    [
      'empty code, and an id',
      { verifier_func: '', verifier_id: 'uuid' },
      { verifier_code: null, verifier_id: 'uuid' },
    ],
    ['another modality', { task_modality: 'computer_use' }, { modality: 'computer_use' }],
  ])('may have %s', (_what, differs, expected) => {
    const task = taskOf({ ...eightKeys, ...differs });
    const { metadata: given } = differs as { metadata?: object };
    expect(task).toEqual({ ...normal, ...(given === undefined ? {} : { metadata: given }), ...expected });
  });

  it('is told from a claude_code task by its environment, by any name', () => {
    for (const name of ['env_key', 'env_id', 'environment_id']) {
      expect(taskOf({ ...without(eightKeys, 'env_id'), [name]: 'booking' })).toEqual(normal);
    }
  });
});

describe('a fleet task is refused', () => {
  it.each([
    ['two keys', { id: 'other' }, 'key', 'has the value "task_isk4", and "id" has "other"'],
    ['two environments', { environment_id: 'shop' }, 'env_id', '"environment_id" has "shop"'],
    [
      'two versions',
      { env_version: 'v1' },
      'env_version',
      'has the version "v1", and "version" has "v0.0.74"',
    ],
    [
      'a version inside its key and another beside it',
      { env_id: 'booking:v1' },
      'env_id',
      'has the version "v1", and "version" has "v0.0.74"',
    ],
    ['two versions of its data', { data_id: 'kinesis:v1' }, 'data_id', '"data_version" has "v0.0.14"'],
    ['two modalities', { modality: 'computer_use' }, 'modality', '"task_modality" has "tool_use"'],
    ['two verifiers', { verifier: { code: 'def f(): pass' } }, 'verifier_func', '"verifier.code" has "def f'],
    [
      'two runtimes',
      { verifier_runtime_version: 'a', metadata: { verifier_runtime_version: 'b' } },
      'verifier_runtime_version',
      '"metadata.verifier_runtime_version" has "b"',
    ],
    ['a version and no name', { env_id: ':v1', version: null }, 'env_id', 'a name before its colon'],
    ['an empty environment', { env_id: ' ' }, 'env_id', 'is missing'],
    ['a number for a version', { version: 74 }, 'version', 'string'],
    ['a version of no data', { data_id: null }, 'data_version', 'without a data_key'],
    ['an unknown modality', { task_modality: 'telepathy' }, 'task_modality', 'tool_use'],
    [
      'broken environment variables',
      { env_variables: '{' },
      'env_variables',
      'an object, or the JSON text of one',
    ],
    ['a list of environment variables', { env_variables: '[1]' }, 'env_variables', 'an object, or'],
    ['no verifier', { verifier_func: null }, 'verifier_code', 'is missing, and there is no verifier_id'],
    ['an empty verifier', { verifier_func: '\n' }, 'verifier_func', 'is empty, and there is no verifier_id'],
    [
      'an error for a verifier',
      { verifier_func: null, verifier: { code: '<error loading code: NoSuchKey>' } },
      'verifier.code',
      'holds an error, and there is no verifier_id',
    ],
    ['a verifier without a function', { verifier_func: 'x = 1' }, 'verifier_func', 'defines no function'],
    [
      'a verifier that breaks off',
      { verifier_func: '"""\ndef f():' },
      'verifier_func',
      'has a string in line 1 that is never',
    ],
    ['a verifier that is no text', { verifier_func: 7 }, 'verifier_func', 'string'],
    [
      'commands that grade',
      { verify: { commands: ['true'] }, kind: 'fleet' },
      'verify',
      'of a claude_code task',
    ],
  ])('with %s, in one fault that names the field as the file does', (_what, differs, field, reason) => {
    expect(faultsOf({ ...eightKeys, ...differs })).toEqual([
      { field, reason: expect.stringContaining(reason) },
    ]);
  });

  it('by its environment when that is what it lacks', () => {
    expect(faultsOf(without(eightKeys, 'env_id', 'version'))).toEqual([
      { field: 'env_key', reason: 'is missing' },
    ]);
  });

  it('with its key, whatever the name of that', () => {
    expect(normaliseTask({ ...eightKeys, prompt: '' })).toMatchObject({ key: 'task_isk4' });
  });
});

it('a claude_code task keeps what would be a name in a fleet task in its metadata', () => {
  const task = { task_key: 'k', prompt: 'do it', verify: { commands: ['true'] } };
  const more = {
    key: 'a',
    id: 7,
    version: '1.2.5',
    data_id: 'd',
    verifier: { code: 'x' },
    task_modality: 'm',
  };
  expect(taskOf({ ...task, ...more })).toMatchObject({ kind: 'claude_code', task_key: 'k', metadata: more });
});

it('whatever its fields hold, a fleet task is refused with a reason or has a normal form that stays as it is', () => {
  const text = fc.oneof(fc.constantFrom('', 'None', 'a:b', ':', '1.2', 'v1', '{}', '[', code), fc.string());
  const value = fc.oneof(
    { weight: 3, arbitrary: text },
    { weight: 1, arbitrary: fc.jsonValue({ maxDepth: 2 }) },
  );
  const names = [
    ...['key', 'id', 'env_id', 'env_key', 'version', 'env_version', 'data_id', 'data_key', 'data_version'],
    ...['env_variables', 'verifier', 'verifier_func', 'verifier_id', 'metadata', 'task_modality', 'region'],
  ];
  let loaded = 0;
  fc.assert(
    fc.property(fc.dictionary(fc.constantFrom(...names), value, { maxKeys: 4 }), (differs) => {
      const normalised = normaliseTask({ ...eightKeys, ...differs });
      if ('faults' in normalised) {
        for (const { reason } of normalised.faults) expect(reason).toMatch(/^[^\n]+$/);
        expect(normalised.faults.length).toBeGreaterThan(0);
        return;
      }
      loaded += 1;
      expect(taskOf(normalised.task)).toEqual(normalised.task);
    }),
    { numRuns: 1_000 },
  );
  expect(loaded).toBeGreaterThan(50);
});
