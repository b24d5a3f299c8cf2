/** The reward an attempt has to give in these tests. */
export function rewardOf(nonce: string): number {
  return Number.parseInt(nonce.slice(0, 8), 16) / 2 ** 32;
}
