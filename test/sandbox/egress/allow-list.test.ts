import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { isHostName } from '../../../src/contracts/index.ts';
import { AllowList } from '../../../src/sandbox/egress/allow-list.ts';
import { readAbsolute, readAuthority, showTarget } from '../../../src/sandbox/egress/target.ts';

describe('an allow list', () => {
  const list = new AllowList([
    'a.test',
    '*.b.test',
    'c.test:8080',
    '10.0.0.0/8',
    '[fd00::1]:8080',
    'c.test:9090',
  ]);

  it.each([
    ['a.test:80', 'listed'],
    ['a.test:443', 'listed'],
    ['a.test:22', 'port'],
    ['x.a.test:80', 'host'],
    ['xa.test:80', 'host'],
    ['a.test.evil:80', 'host'],
    ['x.b.test:443', 'listed'],
    ['x.y.b.test:443', 'listed'],
    ['b.test:443', 'host'],
    ['xb.test:443', 'host'],
    ['c.test:8080', 'listed'],
    ['c.test:9090', 'listed'],
    ['c.test:80', 'port'],
    ['10.9.9.9:80', 'listed'],
    ['11.0.0.1:80', 'host'],
    ['[fd00::1]:8080', 'listed'],
    ['[fd00:0::1]:8080', 'listed'],
    ['[fd00::2]:8080', 'host'],
    // Another family, and yet the same number: a network of IPv4 holds no address of IPv6.
    ['[::ffff:10.9.9.9]:80', 'host'],
  ])('says of %s: %s', (authority, verdict) => {
    expect(list.look(readAuthority(authority, null)!)).toBe(verdict);
  });
});

describe('a target', () => {
  it('is read the same from an authority and from a URL, and once more from its own words', () => {
    const host = fc.oneof(
      fc.domain(),
      fc.ipV4(),
      fc.ipV4Extended(),
      fc.ipV6().map((address) => `[${address}]`),
      fc.stringMatching(/^[a-zA-Z0-9.:_*@/\\?#%[\] ]{1,20}$/),
    );
    fc.assert(
      fc.property(host, fc.integer({ min: 1, max: 65_535 }), (name, port) => {
        const target = readAuthority(`${name}:${port}`, null);
        if (target === null) return;
        expect(readAbsolute(`http://${name}:${port}/x`)).toEqual(target);
        expect(readAuthority(showTarget(target), null)).toEqual(target);
        expect(target.isAddress || isHostName(target.host)).toBe(true);
      }),
      { numRuns: 2_000 },
    );
  });

  it('names one host and one port, and nothing else', () => {
    for (const text of [
      '',
      'a.test',
      ':80',
      'a.test:',
      'a.test:0',
      'a.test:65536',
      'a.test:80:80',
      'u@a.test:80',
    ]) {
      expect(readAuthority(text, null), text).toBeNull();
    }
    for (const text of [
      '/x',
      'http:///x',
      'http://u@a.test/',
      'https://a.test/',
      'http:a.test',
      '//a.test/',
    ]) {
      expect(readAbsolute(text), text).toBeNull();
    }
    expect(readAuthority('a.test', 80)).toEqual({ host: 'a.test', isAddress: false, port: 80 });
  });
});
