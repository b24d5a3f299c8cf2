/** The reward of an episode that acted in a place: of its id's last digits, which another has only by chance. */
export function rewardIn(place: string): number {
  return rewardOf(place.replaceAll(/[^0-9a-f]/g, '').slice(-16));
}

/** The reward an attempt has to give in these tests. */
export function rewardOf(nonce: string): number {
  return Number.parseInt(nonce.slice(0, 8), 16) / 2 ** 32;
}
