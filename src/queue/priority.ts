const middle = 2 ** 20;

/**
 * BullMQ's priority of ours: there 0 goes before all and 1..2^21 rises from soon to late, here higher is sooner and 0 is
 * the default. Every job is prioritized, so that one above the default can overtake those at it.
 */
export function bullPriority(priority: number): number {
  return middle - Math.max(-1_000_000, Math.min(1_000_000, Math.trunc(priority)));
}
