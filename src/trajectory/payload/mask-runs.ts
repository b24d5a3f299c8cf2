import { PayloadError } from './payload.ts';

/** Run lengths of a mask, zeros first: `0 0 1 1 1 0` is `2 3 1`, `1` is `0 1`, no token is no run. */
export function maskRuns(mask: Uint8Array): number[] {
  const runs: number[] = [];
  let value = 0;
  let at = 0;
  while (at < mask.length) {
    const end = mask.indexOf(1 - value, at);
    const next = end === -1 ? mask.length : end;
    runs.push(next - at);
    at = next;
    value = 1 - value;
  }
  return runs;
}

/** Calls `sampled` with each half-open span of ones. Throws when the runs do not cover exactly `length` tokens. */
export function forEachSampledRun(
  runs: readonly number[],
  length: number,
  sampled: (start: number, end: number) => void,
): void {
  let at = 0;
  runs.forEach((run, index) => {
    if (!Number.isInteger(run) || run < 0) throw new PayloadError(`mask run ${run} is not a count`);
    if (index % 2 === 1) sampled(at, Math.min(at + run, length));
    at += run;
  });
  if (at !== length) throw new PayloadError(`mask runs cover ${at} of ${length} tokens`);
}
