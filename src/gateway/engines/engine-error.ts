/** How to treat an engine's failure. */
export type EngineFault =
  /** Nobody listens there: the call is held. */
  | 'unreachable'
  /** 429, 5xx, a broken connection or body: tried again within the turn's deadline. */
  | 'busy'
  /** The prompt, or prompt and max_tokens together, are longer than the context. */
  | 'overflow'
  /** The engine does not take this request: trying again cannot help. */
  | 'rejected'
  /** The engine does not take us (key, model, route): no request of anybody can succeed. */
  | 'misconfigured';

export class EngineError extends Error {
  readonly fault: EngineFault;
  readonly status: number | undefined;
  /** Milliseconds the engine asked us to wait. */
  readonly retryAfterMs: number | undefined;
  /** For `overflow`: the prompt's tokens and the context's. */
  readonly tokens: { readonly prompt: number; readonly limit: number } | undefined;

  constructor(
    fault: EngineFault,
    message: string,
    detail: {
      status?: number;
      retryAfterMs?: number | undefined;
      tokens?: { prompt: number; limit: number };
      cause?: unknown;
    } = {},
  ) {
    super(message, { cause: detail.cause });
    this.name = 'EngineError';
    this.fault = fault;
    this.status = detail.status;
    this.retryAfterMs = detail.retryAfterMs;
    this.tokens = detail.tokens;
  }
}
