import { networkInterfaces } from 'node:os';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { ownAddresses, readNetwork, whyNotReachable } from '../../../src/sandbox/egress/addresses.ts';

const nobody: ReadonlySet<string> = new Set();

describe('an address', () => {
  it.each(['1.1.1.1', '93.184.216.34', '172.15.255.255', '172.32.0.1', '2606:4700::1111', '2a00:1450::1'])(
    '%s is public and reached',
    (address) => {
      expect(whyNotReachable(address, [], nobody)).toBeNull();
    },
  );

  it.each([
    ['10.0.0.1', 'a private address'],
    ['172.16.0.1', 'a private address'],
    ['172.17.0.1', 'a private address'],
    ['192.168.1.1', 'a private address'],
    ['127.0.0.1', 'an address of the machine itself'],
    ['127.255.0.9', 'an address of the machine itself'],
    ['0.0.0.0', 'an address of the machine itself'],
    ['0.1.2.3', 'an address of the machine itself'],
    ['100.64.0.1', "an address of a carrier's own network"],
    ['100.100.100.200', "an address of a carrier's own network"],
    ['169.254.169.254', 'a link-local or metadata address'],
    ['168.63.129.16', 'a link-local or metadata address'],
    ['192.0.0.192', 'not a public address'],
    ['192.88.99.1', 'not a public address'],
    ['198.18.0.1', 'not a public address'],
    ['203.0.113.7', 'not a public address'],
    ['224.0.0.1', 'a multicast address'],
    ['240.0.0.1', 'not a public address'],
    ['255.255.255.255', 'a broadcast address'],
    ['::', 'an address of the machine itself'],
    ['::1', 'an address of the machine itself'],
    ['fe80::1', 'a link-local or metadata address'],
    ['fe80::1%eth0', 'a link-local or metadata address'],
    ['fec0::1', 'not a public address'],
    ['fc00::1', 'a private address'],
    ['fd00:ec2::254', 'a private address'],
    ['ff02::1', 'a multicast address'],
    ['2001:db8::1', 'not a public address'],
    ['4000::1', 'not a public address'],
    // Forms of IPv4 addresses: a router on the way may take them for the address within.
    ['::ffff:169.254.169.254', 'an IPv4 address in the form of an IPv6 one'],
    ['::ffff:1.1.1.1', 'an IPv4 address in the form of an IPv6 one'],
    ['::127.0.0.1', 'an IPv4 address in the form of an IPv6 one'],
    ['64:ff9b::7f00:1', 'an IPv4 address in the form of an IPv6 one'],
    ['64:ff9b:1::a00:1', 'an IPv4 address in the form of an IPv6 one'],
    ['2002:7f00:1::', 'an IPv4 address in the form of an IPv6 one'],
    ['2001:0:1:2:3:4:5:6', 'an IPv4 address in the form of an IPv6 one'],
  ])('%s is not reached: it is %s', (address, why) => {
    expect(whyNotReachable(address, [], nobody)).toBe(why);
  });

  it('is reached when the operator’s networks hold it, and only then', () => {
    const networks = ['10.1.0.0/16', 'fd00::/8', '127.0.0.1/32'].map(readNetwork);
    for (const address of ['10.1.255.1', 'fd12::1', '127.0.0.1']) {
      expect(whyNotReachable(address, networks, nobody), address).toBeNull();
    }
    for (const address of ['10.2.0.1', 'fc00::1', '127.0.0.2', '::ffff:10.1.0.1']) {
      expect(whyNotReachable(address, networks, nobody), address).not.toBeNull();
    }
  });

  it('of this machine is not reached, also when it is public', () => {
    expect(whyNotReachable('1.1.1.1', [], new Set(['1.1.1.1']))).toBe('an address of the machine itself');
    const found = Object.values(networkInterfaces()).flatMap((all) => all ?? []);
    expect(found.length).toBeGreaterThan(0);
    for (const { address } of found) expect(whyNotReachable(address, [], ownAddresses())).not.toBeNull();
  });

  it('of IPv4 is not reached in any IPv6 form, whatever it is', () => {
    fc.assert(
      fc.property(fc.ipV4(), (v4) => {
        for (const form of [`::ffff:${v4}`, `::${v4}`, `64:ff9b::${v4}`]) {
          expect(whyNotReachable(form, [], nobody), form).not.toBeNull();
        }
      }),
    );
  });
});
