import { randomUUID } from 'node:crypto';
import { setMaxListeners } from 'node:events';
import type { ServerResponse } from 'node:http';
import PQueue from 'p-queue';
import type { Instance } from '../instances/instance.ts';
import type { VerifierExecution, VerifierOutcome } from '../../verifier/verifier.ts';

export type RunVerifier = (execution: VerifierExecution) => Promise<VerifierOutcome>;

/** An execution that came to no grade. */
export function failedOutcome(type: string, message: string): VerifierOutcome {
  return {
    success: false,
    result: null,
    error: { type, message, traceback: '' },
    stdout: '',
    execution_time_ms: 0,
  };
}

/** Runs verifiers, a bounded number at once: each is a Python process. */
export class Executions {
  readonly #run: RunVerifier;
  readonly #queue: PQueue;
  readonly #closing = new AbortController();

  constructor(run: RunVerifier, concurrency: number) {
    this.#run = run;
    this.#queue = new PQueue({ concurrency });
    // One listener an execution, all those that wait for a place included.
    setMaxListeners(0, this.#closing.signal);
  }

  newId(): string {
    return randomUUID();
  }

  /** Ended early when the client leaves, the instance ends or the server closes. Never rejects. */
  async run(
    execution: Omit<VerifierExecution, 'signal'>,
    response: ServerResponse,
    instance: Instance,
  ): Promise<VerifierOutcome> {
    // By hand: what AbortSignal.any leaves with a signal that lives as long as the server stays there.
    const stopping = new AbortController();
    const { signal } = stopping;
    const stop = (): void => stopping.abort();
    const reasons = [instance.ended, this.#closing.signal];
    if (response.destroyed || reasons.some(({ aborted }) => aborted)) stop();
    response.once('close', stop);
    for (const reason of reasons) reason.addEventListener('abort', stop);
    const givenUp = (): VerifierOutcome =>
      failedOutcome('ExecutionAborted', `Instance '${instance.id}' ended or nobody waited any more`);
    try {
      return await this.#queue.add(async () => {
        if (signal.aborted) return givenUp();
        return this.#run({ ...execution, signal });
      });
    } catch (error) {
      if (signal.aborted) return givenUp();
      const { name, message } = error instanceof Error ? error : new Error(String(error));
      return failedOutcome(name, message);
    } finally {
      response.off('close', stop);
      for (const reason of reasons) reason.removeEventListener('abort', stop);
    }
  }

  /** Ends all that run and waits for their processes. */
  async close(): Promise<void> {
    this.#closing.abort();
    await this.#queue.onIdle();
  }
}
