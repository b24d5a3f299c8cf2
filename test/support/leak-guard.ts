import { readFileSync, readdirSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { afterAll, beforeAll, expect } from 'vitest';

/** Direct children of this process, as `pid command`. */
function children(): string[] {
  const found: string[] = [];
  if (process.platform !== 'linux') return found;
  for (const pid of readdirSync('/proc')) {
    if (!/^\d+$/.test(pid)) continue;
    try {
      const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
      const [state, parent] = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
      if (Number(parent) !== process.pid || state === 'Z') continue;
      const command = readFileSync(`/proc/${pid}/cmdline`, 'utf8').replaceAll('\0', ' ').slice(0, 200);
      // Transpilers keep a service process of their own.
      if (!command.includes('esbuild')) found.push(`${pid} ${command}`);
    } catch {
      // The process ended while we looked.
    }
  }
  return found;
}

function temporaryDirectories(): string[] {
  return readdirSync(tmpdir()).filter((name) => name.startsWith('rp-') || name.startsWith('rollpool-'));
}

const guarded = new Set(['TCPServerWrap', 'PipeServerWrap', 'TCPSocketWrap', 'TLSWrap', 'ProcessWrap']);

function handles(): string[] {
  return process.getActiveResourcesInfo().filter((name) => guarded.has(name));
}

let before: { handles: number; directories: Set<string>; children: Set<string> };

beforeAll(() => {
  before = {
    handles: handles().length,
    directories: new Set(temporaryDirectories()),
    children: new Set(children()),
  };
});

// What a test file started it has to stop: sockets and servers, child processes, temporary directories.
afterAll(async () => {
  const leaks = (): { handles: string[]; children: string[]; directories: string[] } => ({
    handles: handles().length > before.handles ? handles() : [],
    children: children().filter((child) => !before.children.has(child)),
    directories: process.env['ROLLPOOL_SHARED_TMP']
      ? []
      : temporaryDirectories().filter(
          (name) => !before.directories.has(name) && name.includes(`-${process.pid}-`),
        ),
  });
  const deadline = Date.now() + 5_000;
  for (;;) {
    const found = leaks();
    if (found.handles.length + found.children.length + found.directories.length === 0) return;
    if (Date.now() > deadline) {
      expect(found, 'this test file leaked').toEqual({ handles: [], children: [], directories: [] });
    }
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
});
