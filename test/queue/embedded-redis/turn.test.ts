import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, readFile, readdir, rm, writeFile, mkdir } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { recordOf } from '../../../src/queue/embedded-redis/process-record.ts';
import { takeTurn, tryTurn } from '../../../src/queue/embedded-redis/turn.ts';

let directory: string;
let turns: string;
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), `rollpool-${process.pid}-`));
  turns = join(directory, 'turns');
});
afterEach(() => rm(directory, { recursive: true }));

it('a turn excludes everyone else until it is given back', async () => {
  {
    using turn = tryTurn(turns);
    expect(turn).not.toBeNull();
    expect(tryTurn(turns)).toBeNull();
    await expect(takeTurn(turns, 60)).rejects.toMatchObject({ code: 'start_failed' });
  }
  using again = tryTurn(turns);
  expect(again).not.toBeNull();
  expect(await readdir(turns)).toEqual([`${again?.number}`]);
});

it('a turn of a process whose number another process has now is free', async () => {
  await mkdir(turns);
  await writeFile(join(turns, '7'), JSON.stringify({ ...recordOf(process.pid), started: 'long ago' }));
  using turn = tryTurn(turns);
  expect(turn?.number).toBe(8);
});

it('a turn held on another machine is an error that names the file', async () => {
  await mkdir(turns);
  await writeFile(join(turns, '3'), JSON.stringify({ pid: 1, started: 'x', host: 'some-other-host' }));
  expect(() => tryTurn(turns)).toThrow(join(turns, '3'));
});

it('processes that count in turns lose no count, and none waits for one that was killed', async () => {
  const file = join(directory, 'count');
  await writeFile(file, '0');
  const script = join(import.meta.dirname, 'count-in-turn.ts');
  const children = [1, 2, 3].map(() =>
    spawn(process.execPath, ['--import', 'tsx', script, turns, file, '40'], {
      stdio: ['ignore', 'ignore', 'inherit'],
    }),
  );
  const ends = await Promise.all(children.map((child) => once(child, 'exit')));
  expect(ends.map(([, signal]) => signal)).toEqual(['SIGKILL', 'SIGKILL', 'SIGKILL']);
  expect(await readFile(file, 'utf8')).toBe('120');
});
