/** Calls of one session that may be on their way at once. An agent with parallel subagents stays far below. */
const callsAtOnce = 32;

/**
 * Keeps parallel calls inside the budget of sampled tokens: a call on its way has all it may sample set aside, and one
 * that does not fit beside it waits until a call has ended and is known to have taken less. A call that is alone
 * never waits.
 */
export class CallRoom {
  #calls = 0;
  #tokens = 0;
  #waiting: (() => void)[] = [];

  /** Whether a call of `tokens` fits, when `left` were not sampled yet. */
  fits(tokens: number, left: number): boolean {
    if (this.#calls === 0) return true;
    return this.#calls < callsAtOnce && this.#tokens + tokens <= left;
  }

  /** Sets `tokens` aside; gives the function that lets go of them, once. */
  enter(tokens: number): () => void {
    this.#calls++;
    this.#tokens += tokens;
    return () => {
      this.#calls--;
      this.#tokens -= tokens;
      for (const wake of this.#waiting.splice(0)) wake();
    };
  }

  /** Resolves when a call has left, or the signal aborts. In order of arrival. */
  async change(signal: AbortSignal): Promise<void> {
    if (signal.aborted) return;
    await new Promise<void>((resolve) => {
      const done = (): void => {
        signal.removeEventListener('abort', done);
        resolve();
      };
      signal.addEventListener('abort', done, { once: true });
      this.#waiting.push(done);
    });
  }
}
