import { Packr } from 'msgpackr';
import type { Certificate, Role, Turn } from '../../contracts/index.ts';

/** A sequence in the header: all but its arrays. Field names are the wire's (docs/payload.md). */
export interface SequenceHeader {
  readonly role: Role;
  readonly agent_id: string;
  /** Tokens of the sequence. */
  readonly length: number;
  readonly prompt_len: number;
  /** An earlier sequence whose first `shared` tokens are also the first of this one; -1: none. */
  readonly base: number;
  readonly shared: number;
  /** Run lengths of the loss mask: zeros, ones, zeros, ... They add up to `length`. */
  readonly mask: readonly number[];
  readonly turns: readonly Turn[];
  readonly certificate: Certificate;
}

export interface PayloadHeader {
  readonly sequences: readonly SequenceHeader[];
}

/** Plain MessagePack without extensions: any language's library reads it. */
export const messagePack = new Packr({ useRecords: false });
