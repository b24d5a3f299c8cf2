/**
 * Unbiased estimate of pass@k from n samples of which c passed: 1 - C(n-c, k) / C(n, k), the chance that k of them
 * drawn without putting back hold a pass. Null when there are fewer than k samples.
 */
export function passAt(k: number, n: number, c: number): number | null {
  if (k < 1 || n < k) return null;
  let noPass = 1;
  for (let drawn = 0; drawn < k; drawn += 1) noPass *= Math.max(0, n - c - drawn) / (n - drawn);
  return 1 - noPass;
}
