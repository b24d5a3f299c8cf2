import type { Sequence, Trace } from '../../contracts/index.ts';

/** What an attempt leaves beside its summary. Stored apart, never in job data. */
export interface Payload {
  readonly sequences: readonly Sequence[];
  readonly trace: Trace;
}

/** Bytes that are no payload of this version: the message says what is wrong with them. */
export class PayloadError extends Error {
  constructor(message: string, options?: { cause?: unknown }) {
    super(`payload: ${message}`, options);
    this.name = 'PayloadError';
  }
}
