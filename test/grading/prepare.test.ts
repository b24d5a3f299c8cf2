import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { reservedPaths } from '../../src/grading/prepare.ts';
import { verifierFault } from '../../src/grading/run-commands.ts';

describe('the places kept for the verifier', () => {
  it('are its files and the file of the reward, each once and in plain form', () => {
    expect(
      reservedPaths({ files: { 'a/b.py': '', './a//c.py': '' }, reward: 'file:./out/../r.txt/' }),
    ).toEqual(['a/b.py', 'a/c.py', 'r.txt']);
    expect(reservedPaths({ files: { 'r.xml': '' }, reward: 'junit:./r.xml' })).toEqual(['r.xml']);
    expect(reservedPaths({ files: {}, reward: 'all' })).toEqual([]);
  });
});

describe('an exit code', () => {
  it('blames the verifier only where it surely is to blame', () => {
    fc.assert(
      fc.property(
        fc.option(fc.nat({ max: 255 })),
        fc.constantFrom('pytest -q', './check.sh'),
        (code, command) => {
          const fault = verifierFault(command, code)?.code;
          if (code === 126 || code === 127) expect(fault).toBe('verifier_missing');
          else if (command === 'pytest -q' && [3, 4, 5].includes(code ?? 0))
            expect(fault).toBe('verifier_error');
          else expect(fault).toBeUndefined();
        },
      ),
    );
  });
});
