import { commonPrefixLength } from '../token-compare.ts';

export interface SharedPrefix {
  /** Index of the earlier sequence, -1: none. */
  readonly base: number;
  readonly shared: number;
}

/** Below this many tokens a reference saves nothing worth an indirection. */
const worthwhile = 16;

/** The earlier sequence that shares the most leading tokens; the earliest of equals. */
export function longestShared(sequences: readonly Int32Array[], index: number): SharedPrefix {
  const tokens = sequences[index]!;
  let best: SharedPrefix = { base: -1, shared: worthwhile - 1 };
  for (let base = 0; base < index && best.shared < tokens.length; base += 1) {
    const other = sequences[base]!;
    // Only one that also agrees where the best so far ended can beat it.
    if (other.length <= best.shared || other[best.shared] !== tokens[best.shared]) continue;
    const shared = commonPrefixLength(tokens, other);
    if (shared > best.shared) best = { base, shared };
  }
  return best.base === -1 ? { base: -1, shared: 0 } : best;
}
