import { execFileSync } from 'node:child_process';
import fc from 'fast-check';
import { expect, it } from 'vitest';
import { PythonJsonError, pythonDumps, pythonLoads } from '../../src/policy/python-json.ts';

const python = `
import json, sys
said = []
for text in json.load(sys.stdin):
    try:
        said.append(json.dumps(json.loads(text), ensure_ascii=False))
    except ValueError as error:
        said.append("! " + str(error))
sys.stdout.write(json.dumps(said))
`;

function ours(text: string): string {
  try {
    return pythonDumps(pythonLoads(text));
  } catch (error) {
    if (error instanceof PythonJsonError) return `! ${error.message}`;
    throw error;
  }
}

it('reads, dumps and refuses JSON in the words of Python', () => {
  const texts = [
    ...['{"command":"ls"}', '{"a": 5000.0, "b": 1e5, "c": -0, "d": 1E400, "e": 12345678901234567890123}'],
    ...['{"b":1,"a":2,"b":3}', '{"t": "\\u00e9\\/ \\n"}', '[1, 2.50, 1e-7, 1e16, 123456789.125, -0.0, 1e22]'],
    ...[
      '{"command": "ls"',
      '{"command": ls}',
      "{'a': 1}",
      '',
      '   ',
      '{"a" 1}',
      '{"a":1,}',
      '[1,]',
      '[1 2]',
      '{} x',
    ],
    ...[
      '"a',
      '"a\\q"',
      '"\\u12"',
      '"ab\\u12zzzz"',
      '"ab\\u12',
      '"line\nbreak"',
      'NaN',
      '[Infinity, -Infinity]',
      'tru',
      '01',
      '-',
      '{"a":\n\n oops}',
    ],
    ...fc.sample(fc.json(), { numRuns: 200, seed: 3 }),
    ...fc.sample(fc.json(), { numRuns: 100, seed: 4 }).map((text) => text.slice(0, text.length * 0.7)),
    ...fc.sample(fc.double(), { numRuns: 300, seed: 5 }).map((number) => JSON.stringify([number])),
  ];
  // Newer versions of Python have other words for a trailing comma.
  const worded = texts.filter((text) => !/,\s*[}\]]/.test(text));
  const said: string[] = JSON.parse(
    execFileSync('python3', ['-c', python], { input: JSON.stringify(worded), encoding: 'utf8' }),
  );
  for (const [index, text] of worded.entries()) expect(ours(text), text).toBe(said[index]);
});
