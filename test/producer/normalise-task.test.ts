import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { normaliseTask, type FieldFault } from '../../producer/index.ts';
import { taskSchema } from '../../src/contracts/index.ts';

const minimal = { task_key: 'k', prompt: 'do it', verify: { commands: ['true'] } };
const fleet = {
  task_key: 'book',
  kind: 'fleet',
  prompt: 'Book a room',
  env_key: 'booking',
  env_version: 'v0.0.74',
  data_key: 'kinesis',
  data_version: 'v0.0.14',
  region: 'us-west-1',
  image_type: null,
  env_variables: { CURRENT_DATE: '2026-01-12' },
  verifier_code: 'def validate_task(env, final_answer=None): return 1.0',
  verifier_id: null,
  verifier_runtime_version: null,
  modality: 'tool_use',
  limits: { max_turns: 20 },
  metadata: { difficulty: 2 },
};

function taskOf(value: unknown): Record<string, unknown> {
  const normalised = normaliseTask(value);
  if ('faults' in normalised) throw new Error(JSON.stringify(normalised.faults));
  return normalised.task;
}

function faultsOf(value: unknown): readonly FieldFault[] {
  const normalised = normaliseTask(value);
  return 'faults' in normalised ? normalised.faults : [];
}

describe('a task', () => {
  it('keeps every field of the normal form', () => {
    expect(taskOf(fleet)).toEqual(fleet);
  });

  it('gets its kind from what it has', () => {
    expect(taskOf(minimal)['kind']).toBe('claude_code');
    expect(taskOf({ ...fleet, kind: undefined })['kind']).toBe('fleet');
    expect(taskOf({ ...minimal, kind: 'claude_code' })['kind']).toBe('claude_code');
  });

  it('hands fields that nobody knows on in its metadata', () => {
    expect(taskOf({ ...minimal, metadata: { set: 'a' }, difficulty: 3, tags: ['x'] })['metadata']).toEqual({
      set: 'a',
      difficulty: 3,
      tags: ['x'],
    });
  });

  it('may have null where it could have nothing, as tables exported to JSON do', () => {
    expect(taskOf({ ...minimal, env_key: null, files: null, setup: null, metadata: null })).toEqual(
      taskOf(minimal),
    );
  });

  it('once in its normal form stays as it is', () => {
    const once = taskOf({ ...minimal, extra: 1 });
    expect(taskOf(once)).toEqual(once);
    expect(taskSchema.parse(once)).toEqual(once);
  });
});

describe('a fault', () => {
  it.each([
    ['signs of both kinds', { ...minimal, env_key: 'booking' }, 'kind', '"env_key"'],
    ['an unknown kind', { ...minimal, kind: 'codex' }, 'kind', 'claude_code, fleet'],
    ['a field of the other kind', { ...minimal, verifier_code: 'x' }, 'verifier_code', 'of a fleet task'],
    ['no prompt', { ...minimal, prompt: undefined }, 'prompt', 'is missing'],
    ['an empty prompt', { ...minimal, prompt: ' ' }, 'prompt', 'must not be empty'],
    ['no key', { ...minimal, task_key: null }, 'task_key', 'is missing'],
    [
      'a field that metadata has too',
      { ...minimal, level: 1, metadata: { level: 2 } },
      'level',
      'metadata.level',
    ],
    [
      'an unknown field inside a known one',
      { ...minimal, verify: { commands: ['true'], command: 'x' } },
      'verify.command',
      'no such field',
    ],
    ['a bad element', { ...minimal, setup: ['true', 1] }, 'setup.1', 'string'],
    ['a bad limit', { ...minimal, limits: { max_turns: 0 } }, 'limits.max_turns', '>0'],
    ['a bad file', { ...minimal, files: { 'a.py': 1 } }, 'files.a.py', 'forms'],
    ['metadata that is a list', { ...minimal, metadata: [] }, 'metadata', 'object'],
    ['no object at all', [minimal], '', 'must be an object'],
  ])('in a task with %s names the field and the reason', (_what, task, field, reason) => {
    expect(faultsOf(task)).toEqual([{ field, reason: expect.stringContaining(reason) }]);
  });

  it('does not hide another one', () => {
    expect(
      faultsOf({ task_key: 'k', verifier_id: 'x', verify: {} })
        .map((fault) => fault.field)
        .sort(),
    ).toEqual(['prompt', 'verifier_id', 'verify.commands']);
  });

  it('never is an exception, whatever the JSON', () => {
    fc.assert(
      fc.property(
        fc.jsonValue(),
        fc.dictionary(
          fc.constantFrom('kind', 'verify', 'files', 'metadata', 'env_key', 'limits'),
          fc.jsonValue(),
        ),
        (value, fields) => {
          normaliseTask(value);
          normaliseTask({ ...minimal, ...fields });
        },
      ),
    );
  });
});
