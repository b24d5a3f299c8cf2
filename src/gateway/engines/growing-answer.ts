import type { EngineAnswer } from './engine.ts';

/** An answer that is put together from the chunks of a stream. */
export interface GrowingAnswer {
  /** Whether anything came, the end included. */
  readonly begun: boolean;
  /** Whether the engine said how the answer ended. */
  readonly finished: boolean;
  /** A chunk that can be read without parsing it; false where it has to be parsed. */
  pushText(data: string): boolean;
  /** One chunk, parsed. False when it is none of a completion's. */
  push(chunk: unknown): boolean;
  /** The stream is at its end: what waited is told. */
  end(): void;
  answer(): EngineAnswer;
}
