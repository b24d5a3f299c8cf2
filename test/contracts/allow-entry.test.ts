import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { formatAllowEntry, parseAllowEntry, sandboxSpecSchema } from '../../src/contracts/index.ts';

const read = (entry: string) => sandboxSpecSchema.safeParse({ network: { allow: ['a.example', entry] } });

describe('an entry of sandbox.network.allow', () => {
  it.each([
    ['PyPI.org.', 'pypi.org'],
    ['*.Example.COM', '*.example.com'],
    ['bücher.example:8443', 'xn--bcher-kva.example:8443'],
    ['localhost', 'localhost'],
    ['a_b.example', 'a_b.example'],
    ['10.1.2.3', '10.1.2.3'],
    ['10.1.2.3:8080', '10.1.2.3:8080'],
    ['10.1.2.3/8', '10.0.0.0/8'],
    ['10.1.2.3/32', '10.1.2.3'],
    ['FD00:0::1', 'fd00::1'],
    ['[FD00::1]', 'fd00::1'],
    ['[::1]:443', '[::1]:443'],
    ['fd00:1::9/32', 'fd00:1::/32'],
  ])('%s is read as %s', (written, normal) => {
    expect(read(written).data?.network).toEqual({ allow: ['a.example', normal] });
  });

  it.each([
    ['', 'is empty'],
    ['*', 'network "open"'],
    ['https://pypi.org', 'without a scheme'],
    ['user:pw@pypi.org', 'without a user'],
    ['pypi.org/simple', 'without a path'],
    ['a.*.org', 'only as its first part'],
    ['*.*.org', 'only as its first part'],
    ['py pi.org', 'is not a host name'],
    ['a..b', 'is not a host name'],
    ['-a.b', 'is not a host name'],
    [`${'a'.repeat(64)}.org`, 'is not a host name'],
    ['%70ypi.org', 'is not a host name'],
    ['xn--a', 'is not a host name'],
    ['pypi.org:0', 'not one of 1 to 65535'],
    ['pypi.org:', 'not one of 1 to 65535'],
    ['pypi.org:99999', 'not one of 1 to 65535'],
    ['0x7f.1', 'another spelling of the address 127.0.0.1'],
    ['2130706433', 'another spelling of the address 127.0.0.1'],
    ['0177.0.0.1', 'another spelling of the address 127.0.0.1'],
    ['１２７.0.0.1', 'another spelling of the address 127.0.0.1'],
    ['10.0.0.0/33', 'not one of 0 to 32'],
    ['fd00::/129', 'not one of 0 to 128'],
    ['fe80::1%eth0', 'names an interface'],
    ['[10.0.0.1]:80', 'is not an IPv6 address'],
  ])('%j is refused, by its place in the list', (written, why) => {
    const { error } = read(written);
    expect(error?.issues).toHaveLength(1);
    expect(error?.issues[0]?.path).toEqual(['network', 'allow', 1]);
    expect(error?.issues[0]?.message).toContain(why);
  });

  it('is its own normal form once it is in it', () => {
    const port = fc.option(fc.integer({ min: 1, max: 65_535 }));
    const name = fc.tuple(fc.boolean(), fc.domain(), port).map(([below, host, at]) => {
      return `${below ? '*.' : ''}${host}${at === null ? '' : `:${at}`}`;
    });
    const v4 = fc.tuple(fc.ipV4(), fc.integer({ min: 0, max: 32 })).map(([ip, bits]) => `${ip}/${bits}`);
    const v6 = fc.tuple(fc.ipV6(), port).map(([ip, at]) => (at === null ? ip : `[${ip}]:${at}`));
    fc.assert(
      fc.property(fc.oneof(name, v4, v6), (written) => {
        const normal = formatAllowEntry(parseAllowEntry(written));
        expect(formatAllowEntry(parseAllowEntry(normal))).toBe(normal);
        expect(parseAllowEntry(normal)).toEqual(parseAllowEntry(written));
      }),
    );
  });
});
