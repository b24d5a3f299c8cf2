import type { PolicyState } from '../../../src/gateway/policy-state.ts';

/** The state of a policy whose weights a test changes, with a pause and without. */
export class MovingState implements PolicyState {
  readonly source = 'pushed' as const;
  #version = 1;
  #paused = false;
  #unpaused = 0;
  #cuts = 0;
  #waiting: (() => void)[] = [];

  version = (): number => this.#version;
  paused = (): boolean => this.#paused;
  unpausedChanges = (): number => this.#unpaused;
  cuts = (): number => this.#cuts;

  /** `abort`: calls in flight are to be ended. */
  pause(abort = false): void {
    this.#paused = true;
    if (abort) this.#cuts++;
  }

  /** New weights; without a pause calls in flight cannot know which ones they had. */
  setVersion(version = this.#version + 1): void {
    this.#version = version;
    if (!this.#paused) this.#unpaused++;
  }

  resume(): void {
    this.#paused = false;
    for (const go of this.#waiting.splice(0)) go();
  }

  resumed(signal: AbortSignal): Promise<void> {
    if (!this.#paused) return Promise.resolve();
    return new Promise((resolve, reject) => {
      this.#waiting.push(resolve);
      signal.addEventListener('abort', () => reject(signal.reason as Error), { once: true });
    });
  }
}
