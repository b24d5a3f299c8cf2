import type { TurnPart } from './chat-template.ts';
import { hashUnit } from './hashing.ts';
import { endOfTurn } from './special-tokens.ts';
import { encodeBytes } from './wtf8.ts';
import { matchesAt } from './vocabulary.ts';

export interface Candidate {
  readonly id: number;
  /** Probability under the policy, before temperature, penalties and truncation. */
  readonly p: number;
}

/** A turn as units: a byte each, special tokens by id, the end of the turn last. */
function unitsOf(parts: readonly TurnPart[]): Uint16Array {
  const units: number[] = [];
  for (const part of parts) {
    if (typeof part === 'number') units.push(part);
    else for (const byte of encodeBytes(part)) units.push(byte);
  }
  units.push(endOfTurn);
  return Uint16Array.from(units);
}

/**
 * How the policy writes a given text: at each place the longest piece with probability 1 - e, and up to three shorter
 * ones with the rest. `e` hangs on the place (the token before and the piece) around `splitRate`, so a text has many
 * segmentations, each with its true probability, and most samples hold one that re-tokenising would lose.
 */
function segmentation(units: Uint16Array, at: number, previous: number, splitRate: number): Candidate[] {
  const unit = units[at] ?? endOfTurn;
  if (unit >= 256) return [{ id: unit, p: 1 }];
  const matches = matchesAt(units, at);
  const longest = matches.at(-1);
  if (longest === undefined || matches.length === 1 || splitRate <= 0)
    return [{ id: longest?.id ?? unit, p: 1 }];
  const split = Math.min(0.75, splitRate * (0.5 + hashUnit(previous, longest.id)));
  const shorter = matches.slice(Math.max(0, matches.length - 4), -1);
  const shares = shorter.map((match) => 0.5 + hashUnit(longest.id, match.id));
  const total = shares.reduce((sum, share) => sum + share, 0);
  return [
    ...shorter.map((match, index) => ({ id: match.id, p: (split * (shares[index] ?? 0)) / total })),
    { id: longest.id, p: 1 - split },
  ];
}

interface Writing {
  readonly units: Uint16Array;
  readonly option: number;
  weight: number;
  /** What it may go on with at the present place. */
  next: readonly Candidate[];
}

export interface WeightedWriting {
  readonly weight: number;
  readonly parts: readonly TurnPart[];
  /** Which option of the script it belongs to. */
  readonly option: number;
}

/**
 * The policy's distribution over the next token: a mixture over the writings that begin with what was sampled so far,
 * each weighted by its posterior. `accept` moves it one token on.
 */
export class NextToken {
  #writings: Writing[];
  #at = 0;
  #previous = endOfTurn;
  readonly #splitRate: number;

  constructor(writings: readonly WeightedWriting[], splitRate: number) {
    this.#splitRate = splitRate;
    const total = writings.reduce((sum, writing) => sum + writing.weight, 0);
    this.#writings = writings.map(({ parts, weight, option }) => ({
      units: unitsOf(parts),
      option,
      weight: weight / total,
      next: [],
    }));
    this.#look();
  }

  #look(): void {
    for (const writing of this.#writings) {
      writing.next = segmentation(writing.units, this.#at, this.#previous, this.#splitRate);
    }
  }

  /** In order of id; probabilities add up to 1. */
  candidates(): readonly Candidate[] {
    const [only] = this.#writings;
    if (only !== undefined && this.#writings.length === 1) {
      return only.next.length === 1 ? only.next : [...only.next].sort((a, b) => a.id - b.id);
    }
    const sums = new Map<number, number>();
    for (const { next, weight } of this.#writings) {
      for (const { id, p } of next) sums.set(id, (sums.get(id) ?? 0) + weight * p);
    }
    return [...sums].map(([id, p]) => ({ id, p: Math.min(1, p) })).sort((a, b) => a.id - b.id);
  }

  /** `length`: how many units the token covers. */
  accept(id: number, length: number): void {
    const kept: Writing[] = [];
    let total = 0;
    for (const writing of this.#writings) {
      const found = writing.next.find((candidate) => candidate.id === id);
      if (found === undefined) continue;
      writing.weight *= found.p;
      total += writing.weight;
      kept.push(writing);
    }
    for (const writing of kept) writing.weight /= total;
    this.#writings = kept;
    this.#at += length;
    this.#previous = id;
    this.#look();
  }

  /** The options that can still be meant, most likely first. */
  options(): number[] {
    return [...new Set([...this.#writings].sort((a, b) => b.weight - a.weight).map(({ option }) => option))];
  }
}
