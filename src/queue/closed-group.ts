import type { ResultSummary } from '../contracts/index.ts';

export const closedGroupSchemaName = 'rollpool.group/1';

/** A delivered result as the streams carry it: its summary, and the key of its payload (null: it has none). */
export interface Delivered {
  readonly summary: ResultSummary;
  /** Name of the STRING key that holds the encoded sequences and trace. */
  readonly payload: string | null;
}

/** A slot without a result, and why. */
export interface MissingMember {
  readonly episode_id: string;
  readonly sample_index: number;
  readonly reason: 'late' | 'cancelled_before_start' | 'expired';
}

/** A closed group: field `group` of an entry of the stream `groups:<run>`. `delivered + missing.length = group_size`. */
export interface ClosedGroup {
  readonly schema: typeof closedGroupSchemaName;
  readonly run_id: string;
  readonly batch_id: string;
  readonly group_id: string;
  readonly task_key: string;
  /** Counts `--retry-failed`, from 0. */
  readonly generation: number;
  readonly group_size: number;
  /** Results by sample index, without the missing ones. */
  readonly results: readonly Delivered[];
  readonly missing: readonly MissingMember[];
  /** Episode ids of results that a replacement took the slot of. */
  readonly superseded: readonly string[];
  readonly delivered: number;
  /** Results whose reward is not null. */
  readonly scored: number;
  /** Epoch milliseconds. */
  readonly closed_at: number;
}

/** The one field of an entry of `groups:<run>`; its value is a ClosedGroup as JSON. */
export const groupField = 'group';
/** The one field of an entry of `deliveries:<run>`; its value is a Delivered as JSON. */
export const deliveryField = 'result';
/** Entries `deliveries:<run>` keeps, about. */
export const deliveriesKept = 10_000;
