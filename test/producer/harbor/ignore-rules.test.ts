import { expect, it } from 'vitest';
import { IgnoreRules } from '../../../producer/readers/harbor/ignore-rules.ts';

// Expected values: what Docker's builder does.
it.each([
  ['*.log', 'a.log', true],
  ['*.log', 'sub/a.log', false],
  ['**/*.log', 'sub/deep/a.log', true],
  ['**/*.log', 'a.log', true],
  ['data', 'data/x/y', true],
  ['data/', 'data/x', true],
  ['/data', 'data', true],
  ['./data', 'data', true],
  ['data', 'other/data', false],
  ['*/temp*', 'a/temporary', true],
  ['*/temp*', 'a/b/temp', false],
  ['temp?', 'temp1', true],
  ['temp?', 'temp', false],
  ['[a-c].txt', 'b.txt', true],
  ['[^a-c].txt', 'b.txt', false],
  ['a.b', 'axb', false],
  ['a\\*', 'a*', true],
  ['a\\*', 'ab', false],
  ['# comment', '# comment', false],
  ['docs\n!docs/keep.md', 'docs/keep.md', false],
  ['docs\n!docs/keep.md', 'docs/other.md', true],
  ['!docs/keep.md\ndocs', 'docs/keep.md', true],
  ['*\n!src', 'src/main.c', false],
  ['*\n!src', 'bin/main', true],
  ['a/**/z', 'a/z', true],
  ['a/**/z', 'a/b/c/z', true],
  ['a/**', 'a/b', true],
  ['\uFEFF*.log\r\n', 'a.log', true],
])('with the rules %j, whether %j is left out is %j', (rules, path, out) => {
  expect(new IgnoreRules(rules).leavesOut(path)).toBe(out);
});

it('a line that is no pattern is told', () => {
  expect(new IgnoreRules('a\n[b\n!\n').wrong).toEqual(['[b', '!']);
});
