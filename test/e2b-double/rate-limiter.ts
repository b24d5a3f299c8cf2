import { ApiError } from './answers.ts';

/** The rate limiter of the control plane: 429 with an integer `Retry-After` (facts: E2B 2.8). */
export class RateLimiter {
  readonly #perSecond: number;
  #tokens: number;
  #at = performance.now();

  /** `perSecond` calls pass each second, and as many (at least one) at once. */
  constructor(perSecond: number) {
    this.#perSecond = perSecond;
    this.#tokens = Math.max(1, perSecond);
  }

  pass(): void {
    const now = performance.now();
    const most = Math.max(1, this.#perSecond);
    this.#tokens = Math.min(most, this.#tokens + ((now - this.#at) / 1000) * this.#perSecond);
    this.#at = now;
    if (this.#tokens >= 1) {
      this.#tokens -= 1;
      return;
    }
    const seconds = Math.ceil((1 - this.#tokens) / this.#perSecond);
    throw new ApiError(429, 'too many requests', {
      headers: {
        'retry-after': String(seconds),
        'ratelimit-limit': String(most),
        'ratelimit-remaining': '0',
        'ratelimit-reset': String(seconds),
      },
    });
  }
}
