// tsc copies no files that are not TypeScript: Lua scripts and other assets follow it into dist here.
import { cp, readdir } from 'node:fs/promises';
import { extname, join } from 'node:path';

const kept = new Set(['.lua', '.py', '.json', '.sql', '.mjs', '.sh']);

for (const root of ['src', 'producer', 'workers']) {
  for (const entry of await readdir(root, { recursive: true, withFileTypes: true })) {
    if (!entry.isFile() || !kept.has(extname(entry.name))) continue;
    const from = join(entry.parentPath, entry.name);
    await cp(from, join('dist', from));
  }
}
