import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { Demand, sharePlaces } from '../../../src/sandbox/warm/demand.ts';

describe('the demand for a key', () => {
  test('counts each request, and each half as much a while later', () => {
    const demand = new Demand(1_000);
    demand.add(0);
    demand.add(0);
    expect(demand.at(0)).toBe(2);
    expect(demand.at(1_000)).toBe(1);
    demand.add(1_000);
    expect(demand.at(3_000)).toBe(0.5);
  });
});

describe('the places of a shelf', () => {
  const demands = fc.dictionary(fc.string({ maxLength: 3 }), fc.double({ min: 0, max: 50, noNaN: true }));

  test('are never more than there are, nor more than a key is asked for', () => {
    fc.assert(
      fc.property(demands, fc.nat(20), (wanted, capacity) => {
        const shares = sharePlaces(new Map(Object.entries(wanted)), capacity, 0.1);
        expect([...shares.values()].reduce((sum, share) => sum + share, 0)).toBeLessThanOrEqual(capacity);
        for (const [key, share] of shares) expect(share).toBeLessThanOrEqual(Math.ceil(wanted[key]!));
      }),
    );
  });

  test('leave none empty while a key wants one', () => {
    fc.assert(
      fc.property(demands, fc.nat(20), (wanted, capacity) => {
        const shares = sharePlaces(new Map(Object.entries(wanted)), capacity, 0.1);
        const given = [...shares.values()].reduce((sum, share) => sum + share, 0);
        const asked = Object.values(wanted)
          .filter((demand) => demand >= 0.1)
          .reduce((sum, demand) => sum + Math.ceil(demand), 0);
        expect(given).toBe(Math.min(capacity, asked));
      }),
    );
  });

  test('go to the key that is asked for more', () => {
    fc.assert(
      fc.property(demands, fc.nat(20), (wanted, capacity) => {
        const shares = sharePlaces(new Map(Object.entries(wanted)), capacity, 0.1);
        const keys = Object.keys(wanted);
        for (const a of keys) {
          for (const b of keys) {
            if (wanted[a]! > wanted[b]!)
              expect(shares.get(a) ?? 0).toBeGreaterThanOrEqual(shares.get(b) ?? 0);
          }
        }
      }),
    );
  });
});
