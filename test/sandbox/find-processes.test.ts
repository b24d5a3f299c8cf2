import { expect, test } from 'vitest';
import { findProcesses } from '../../src/sandbox/local/find-processes.ts';
import type { ProcessEntry } from '../../src/sandbox/local/process-table.ts';

function entry(pid: number, given: Partial<ProcessEntry> = {}): ProcessEntry {
  return { pid, parent: 1, group: pid, session: pid, uids: [500], environment: [], cwd: '/', ...given };
}

const search = { mark: 'MARK=1', uid: null, directory: '/tmp/box', roots: [] };

test('a mark brings its session, its group and every descendant with it', () => {
  const table = [
    entry(10, { environment: ['A=b', 'MARK=1'], session: 10, group: 10 }),
    entry(11, { parent: 10, session: 11, group: 11 }),
    entry(12, { parent: 11, session: 12, group: 12 }),
    entry(13, { parent: 1, session: 10, group: 13 }),
    entry(14, { parent: 1, session: 14, group: 10 }),
    entry(20),
    entry(21, { environment: ['MARK=11'] }),
  ];
  expect(findProcesses(table, search).sort()).toEqual([10, 11, 12, 13, 14]);
});

test('an orphan that works in the directory is taken, and it alone; a visitor is not', () => {
  const table = [
    entry(10, { cwd: '/tmp/box/workspace', session: 9, group: 9 }),
    entry(11, { session: 9, group: 9 }),
    entry(12, { parent: 800, cwd: '/tmp/box' }),
    entry(13, { cwd: '/tmp/box-of-another' }),
  ];
  expect(findProcesses(table, search)).toEqual([10]);
  expect(findProcesses(table, { ...search, directory: null })).toEqual([]);
});

test('a user of its own decides alone', () => {
  const table = [
    entry(10, { uids: [7, 7, 7, 7] }),
    entry(11, { uids: [500, 7, 500, 500] }),
    entry(12, { parent: 10, environment: ['MARK=1'] }),
  ];
  expect(findProcesses(table, { ...search, uid: 7 })).toEqual([10, 11]);
});

test('session and group 0 and 1 are nobody’s', () => {
  const table = [
    entry(10, { environment: ['MARK=1'], session: 0, group: 1 }),
    entry(11, { session: 0, group: 1 }),
  ];
  expect(findProcesses(table, search)).toEqual([10]);
});
