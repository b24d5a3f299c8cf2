import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { describe, expect, test } from 'vitest';
import { growthOf, type LeakSample } from '../../bench/leak-counts.ts';
import { haveDocker } from '../sandbox/docker-daemon.ts';

const program = fileURLToPath(new URL('../../bench/leaks.ts', import.meta.url));

describe.runIf(haveDocker)('a worker process after many episodes', { timeout: 240_000 }, () => {
  test('holds what it held after few: handles, sockets, containers, processes and directories are flat', async () => {
    const args = ['--expose-gc', '--import', 'tsx', program, '40', '2', '--json'];
    const { stdout } = await promisify(execFile)(process.execPath, args, { timeout: 220_000 });
    const { samples, grown, left } = JSON.parse(stdout) as {
      samples: LeakSample[];
      grown: string[];
      left: string[];
    };
    expect(samples.at(-1)!.episodes).toBe(40);
    expect(grown).toEqual([]);
    expect(left).toEqual([]);
  });
});

test('what grew from the first count to the last is named', () => {
  const flat = {
    handles: 9,
    descriptors: 9,
    sockets: 9,
    processes: 1,
    directories: 1,
    rss_mb: 9,
    heap_mb: 9,
  };
  const first = { episodes: 4, containers: 0, ...flat };
  expect(growthOf([first, { ...first, episodes: 40, sockets: 12 }])).toEqual([]);
  expect(growthOf([first, { ...first, episodes: 40, sockets: 45, containers: 1 }])).toEqual([
    'sockets: 9 after 4 episodes, 45 after 40',
    'containers: 0 after 4 episodes, 1 after 40',
  ]);
  expect(growthOf([first, { ...first, episodes: 40, containers: 2 }], 2)).toEqual([]);
  expect(growthOf([first, { ...first, episodes: 1_004, heap_mb: 39 }])).toEqual([
    'heap: 31 KB for each episode',
  ]);
});
