import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import ts from 'typescript';
import { expect, test } from 'vitest';

/** What tsc makes of a file for dist, where every file ends in `.js`. */
function compiled(source: string, fileName: string, options: ts.CompilerOptions): string {
  return ts.transpileModule(source, { compilerOptions: options, fileName }).outputText;
}

async function sources(root: string): Promise<string[]> {
  const entries = await readdir(root, { recursive: true });
  return entries.filter((name) => name.endsWith('.ts')).map((name) => join(root, name));
}

const { options } = ts.parseJsonConfigFileContent(
  ts.readConfigFile('tsconfig.json', (path) => ts.sys.readFile(path)).config,
  ts.sys,
  '.',
);

test('a file that is imported only when it is needed is found in what was compiled too', async () => {
  const late = /\bimport\(\s*['"][^'"]*\.ts['"]/;
  const lost: string[] = [];
  for (const path of (await Promise.all(['src', 'producer', 'workers'].map(sources))).flat()) {
    const source = await readFile(path, 'utf8');
    if (late.test(source) && late.test(compiled(source, path, options))) lost.push(path);
  }
  expect(lost).toEqual([]);
  // What the test is for: beside `await using`, the compiler forgets to change the ending.
  const forgotten =
    "export async function f(x: AsyncDisposable) { await using y = x; await import('./a.ts'); return y; }";
  expect(compiled(forgotten, 'f.ts', options)).toMatch(late);
});
