import * as fc from 'fast-check';
import { expect, it } from 'vitest';
import { scanSql } from '../../../src/local-fleet/environment/sql-scan.ts';

it('parameters are found, each once, where SQLite finds them', () => {
  expect(scanSql('select :a, @B, $c_d, :a from t where x = ?1')).toEqual({
    keyword: 'SELECT',
    several: false,
    parameters: [':a', '@B', '$c_d'],
    positional: true,
  });
});

it('strings, quoted names and comments hide what stands in them', () => {
  const sql = `/* :no */ SELECT ':no', "a;:no", [b?], \`c$no\` -- :no ; DELETE
    FROM t WHERE x = 'it''s ; :no' AND y = :yes`;
  expect(scanSql(sql)).toEqual({
    keyword: 'SELECT',
    several: false,
    parameters: [':yes'],
    positional: false,
  });
});

it.each([
  ['SELECT 1;', false],
  ['SELECT 1; -- nothing more', false],
  [';; SELECT 1', false],
  ['SELECT 1; SELECT 2', true],
  ["SELECT 1; 'x'", true],
  ['', false],
])('%s holds several statements: %s', (sql, several) => {
  expect(scanSql(sql).several).toBe(several);
});

it('whatever stands in a string says nothing', () => {
  fc.assert(
    fc.property(fc.string({ unit: 'binary' }), (text) => {
      const scanned = scanSql(`SELECT '${text.replaceAll("'", "''")}' AS x, :a`);
      expect(scanned).toEqual({
        keyword: 'SELECT',
        several: false,
        parameters: [':a'],
        positional: false,
      });
    }),
  );
});
