/** Why there is no embedded Redis. `no_binary`: nothing to start. `elsewhere`: another machine or container has the data. */
export type EmbeddedRedisFault =
  'no_binary' | 'old_binary' | 'start_failed' | 'elsewhere' | 'unsafe_directory';

/** An embedded Redis could not be had. The message is for people and complete. */
export class EmbeddedRedisError extends Error {
  readonly code: EmbeddedRedisFault;

  constructor(code: EmbeddedRedisFault, message: string, options?: { cause?: unknown }) {
    super(message, options);
    this.name = 'EmbeddedRedisError';
    this.code = code;
  }
}
