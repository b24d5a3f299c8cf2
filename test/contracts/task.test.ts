import { describe, expect, it } from 'vitest';
import { contentHash, episodeId, groupId, resolveSampling, taskSchema } from '../../src/contracts/index.ts';

const minimal = { task_key: 'k', kind: 'claude_code', prompt: 'do it', verify: { commands: ['true'] } };

describe('task', () => {
  it('fills every default of the normal form', () => {
    expect(taskSchema.parse(minimal)).toEqual({
      ...minimal,
      limits: {},
      metadata: {},
      files: {},
      setup: [],
      sandbox: { cpus: 1, memory_mb: 2048, network: 'none', workdir: '/workspace' },
      verify: { commands: ['true'], files: {}, reward: 'all', reward_range: [0, 1] },
    });
  });

  it.each([
    ['an empty prompt', { ...minimal, prompt: ' ' }, 'prompt'],
    ['no verify command', { ...minimal, verify: { commands: [] } }, 'verify.commands'],
    ['a file outside the working directory', { ...minimal, files: { '../x': '' } }, 'files.../x'],
    [
      'a reward file outside the working directory',
      { ...minimal, verify: { commands: ['true'], reward: 'file:../r' } },
      'verify.reward',
    ],
    [
      'artifacts without a fresh sandbox',
      { ...minimal, verify: { commands: ['true'], artifacts: ['a'] } },
      'verify.artifacts',
    ],
    [
      'a fresh sandbox that gets nothing',
      { ...minimal, verify: { commands: ['true'], sandbox: 'fresh' } },
      'verify.artifacts',
    ],
    [
      'an image and a build',
      { ...minimal, sandbox: { image: 'a', build: { files: { Dockerfile: 'FROM a' } } } },
      'sandbox.build',
    ],
    [
      'a build without its Dockerfile',
      { ...minimal, sandbox: { build: { files: { Dockerfile: 'FROM a' }, dockerfile: 'b' } } },
      'sandbox.build.files',
    ],
    [
      'something executable that is not there',
      { ...minimal, sandbox: { build: { files: { Dockerfile: 'FROM a' }, executable: ['b'] } } },
      'sandbox.build.executable',
    ],
    ['a directory of the system', { ...minimal, verify: { commands: ['true'], dir: '/usr' } }, 'verify.dir'],
    ['a directory with ..', { ...minimal, verify: { commands: ['true'], dir: '/a/../b' } }, 'verify.dir'],
    [
      'the working directory for the verifier',
      { ...minimal, sandbox: { workdir: '/a/b/' }, verify: { commands: ['true'], dir: '/a' } },
      'verify.dir',
    ],
    [
      'the place of the reward for the verifier',
      { ...minimal, verify: { commands: ['true'], dir: '/logs', reward: 'harbor' } },
      'verify.dir',
    ],
    ['an unknown field', { ...minimal, nonsense: 1 }, ''],
    ['limits below one', { ...minimal, limits: { max_turns: 0 } }, 'limits.max_turns'],
  ])('refuses %s, naming the field', (_what, task, field) => {
    const parsed = taskSchema.safeParse(task);
    expect(parsed.success).toBe(false);
    expect(parsed.error?.issues.map((issue) => issue.path.join('.'))).toContain(field);
  });
});

describe('ids', () => {
  it('are the same for the same parts and differ at every boundary', () => {
    expect(episodeId('r', 'b', 't', 1)).toBe(episodeId('r', 'b', 't', 1));
    expect(
      new Set([
        episodeId('r', 'b', 't', 1),
        episodeId('r', 'bt', '', 1),
        episodeId('r', 'b', 't', 1, 1),
        episodeId('r', 'b', 't', 0),
      ]).size,
    ).toBe(4);
    expect(groupId('r', 'b', 't')).toMatch(/^g[0-9a-f]{24}$/);
  });

  it('hash a value whatever the order of its keys', () => {
    expect(contentHash({ a: 1, b: { c: 2, d: 3 } })).toBe(contentHash({ b: { d: 3, c: 2 }, a: 1 }));
    expect(contentHash({ a: [1, 2] })).not.toBe(contentHash({ a: [2, 1] }));
  });
});

describe('sampling', () => {
  it('lets the later layer win field by field', () => {
    expect(resolveSampling({ temperature: 0.5, top_p: 0.9 }, undefined, { temperature: 0.7 })).toMatchObject({
      temperature: 0.7,
      top_p: 0.9,
      top_k: -1,
    });
  });
});
