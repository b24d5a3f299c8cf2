import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { exitsAsPytest } from '../../src/grading/shell-command.ts';

describe('the exit status of a verify command is surely pytest’s', () => {
  it.each([
    'pytest',
    'pytest -q tests',
    '/usr/bin/pytest tests',
    'python -m pytest -q',
    'python3.12 -B -m pytest',
    'python3 -W error -m pytest tests',
    'PYTHONPATH=src pytest -q',
    'env A=1 pytest',
    'timeout 60 pytest -q',
    'timeout -k 5 60 python -m pytest',
    'uv run pytest',
    'cd tests && pytest -q',
    'mkdir -p out; pytest --junitxml=out/r.xml',
    'pytest a && pytest b',
    'pytest -k "a && b; c | d"',
    "pytest -k 'not (slow)'",
    'pytest -q > log.txt 2>&1',
    'pytest \\\n  -q',
    'export A=1\npytest # the hidden ones',
    './build.sh; pytest',
    'set -e; cd x; pytest',
  ])('%s', (line) => {
    expect(exitsAsPytest(line)).toBe(true);
  });

  it.each([
    '',
    'true',
    'exit 4',
    'python check.py',
    'python -c "import pytest"',
    'python -m unittest',
    'bash run-pytest.sh',
    'echo pytest',
    'pytest -q | tee log.txt',
    'pytest || true',
    './check.sh && pytest',
    'pytest && ./check.sh',
    'pytest; ./check.sh',
    'set -e; ./check.sh; pytest',
    '(pytest)',
    'if pytest; then exit 4; fi',
    'x=$(pytest)',
    'bash -c "pytest"',
    'pytest <<EOF',
    "pytest 'unclosed",
    '! pytest',
  ])('not: %s', (line) => {
    expect(exitsAsPytest(line)).toBe(false);
  });

  it('never throws, whatever the line', () => {
    fc.assert(
      fc.property(
        fc.string({
          unit: fc.constantFrom(
            'pytest',
            ' ',
            '&',
            '|',
            ';',
            "'",
            '"',
            '\\',
            '#',
            '\n',
            '<',
            '>',
            '(',
            'cd x',
          ),
        }),
        (line) => {
          exitsAsPytest(line);
        },
      ),
    );
  });

  it('does not look inside quotes', () => {
    fc.assert(
      fc.property(fc.stringMatching(/^[a-z &|;<>()#]*$/), (inside) => {
        expect(exitsAsPytest(`pytest -k '${inside}'`)).toBe(true);
      }),
    );
  });
});
