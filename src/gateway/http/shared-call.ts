import { hash } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { ChatError, type ChatAnswer, type ChatDelta } from '../chat.ts';
import { DeltaLog } from './delta-log.ts';

/** How long a call whose client left goes on, so that the client's retry can be attached to it. */
const graceMs = 5_000;

/** Names a request for replay: who asks, for which of its agents, for what. */
export function replayKey(agentHeader: string, path: string, body: Buffer): string {
  return `${hash('sha256', body, 'base64')} ${path} ${agentHeader}`;
}

/** Whether the policy would refuse the same request again. */
function isFinal(error: unknown): boolean {
  return error instanceof ChatError && (error.code === 'context_overflow' || error.code === 'policy_error');
}

/** Begins a call; what comes of its answer is told to `onDelta`. */
export type BeginCall = (signal: AbortSignal, onDelta: (delta: ChatDelta) => void) => Promise<ChatAnswer>;

/** One call that a client and its retries share: sampled once, until somebody has it. */
export class SharedCall {
  readonly promise: Promise<ChatAnswer>;
  readonly #abort = new AbortController();
  readonly #graceMs: number;
  #clients = 0;
  #log = new DeltaLog();
  #grace: NodeJS.Timeout | undefined;
  #answer: ChatAnswer | null = null;
  #earlier: SharedCall | null = null;
  #state: 'working' | 'answered' | 'delivered' | 'refused' | 'failed' = 'working';

  constructor(begin: BeginCall, grace = graceMs) {
    this.#graceMs = grace;
    this.promise = begin(this.#abort.signal, this.#log.push);
    this.promise.then(
      (answer) => {
        if (this.#state === 'working') this.#state = 'answered';
        this.#answer = answer;
        // Who comes from now on is given the whole answer.
        this.#log = new DeltaLog();
        clearTimeout(this.#grace);
        if (this.#clients === 0) answer.delivered(false);
      },
      (error: unknown) => {
        this.#state = isFinal(error) ? 'refused' : 'failed';
        clearTimeout(this.#grace);
      },
    );
  }

  /**
   * A retry may take it over: nobody is waiting for it and nobody has it, or it was refused for what it is (the CLI
   * sends what got a 400 once more).
   */
  get adoptable(): boolean {
    if (this.#state === 'refused') return true;
    // One that is being ended has no answer to give any more, however long the engine takes to end it.
    if (this.#clients > 0 || this.#abort.signal.aborted) return false;
    return this.#state === 'working' || this.#state === 'answered';
  }

  /** What has come of the answer so far; empty once it is whole. */
  get log(): DeltaLog {
    return this.#log;
  }

  /** Its answer is on its way to a client. */
  get isBeingDelivered(): boolean {
    return this.#clients > 0 && this.#state === 'answered';
  }

  /** Clients that wait for it or are being answered. */
  get clients(): number {
    return this.#clients;
  }

  join(): void {
    this.#clients++;
    clearTimeout(this.#grace);
  }

  /** An answer of this call replaces those that `earlier` and the calls before it gave, or may still give. */
  replace(earlier: SharedCall): void {
    this.#earlier = earlier;
    const supersede = (answer: ChatAnswer): void => answer.superseded();
    const nothing = (): void => {};
    this.promise.then(() => {
      for (let each = this.#earlier; each !== null; each = each.#earlier)
        each.promise.then(supersede, nothing);
    }, nothing);
  }

  /** A client has the whole answer. */
  delivered(): void {
    this.#clients--;
    this.#state = 'delivered';
    this.#answer?.delivered(true);
  }

  /** A client left without it. */
  left(): void {
    this.#clients--;
    if (this.#clients > 0) return;
    if (this.#state === 'answered') this.#answer?.delivered(false);
    if (this.#state !== 'working') return;
    this.#grace = setTimeout(
      () => this.#abort.abort(new Error('the client left and did not come back')),
      this.#graceMs,
    ).unref();
  }
}

/** The calls of one session by their replay keys. */
export class SharedCalls {
  readonly #calls = new Map<string, SharedCall>();
  readonly #graceMs: number | undefined;

  constructor(grace: number | undefined) {
    this.#graceMs = grace;
  }

  /** Whether every client of every call has left or has its answer. */
  idle(): boolean {
    return [...this.#calls.values()].every((call) => call.clients === 0);
  }

  /** Waits until no answer is on its way to a client any more, at most `ms`. */
  async settled(ms: number): Promise<void> {
    const deadline = Date.now() + ms;
    while ([...this.#calls.values()].some((call) => call.isBeingDelivered) && Date.now() < deadline) {
      await sleep(5);
    }
  }

  /**
   * The call that `key` asks for: one that its client left, in flight or answered, or a new one. `retries`: this
   * client asks for the same only when it lost the answer (the CLI's history grows with every call), so a new answer
   * replaces the earlier one, delivered or not: a connection that broke may look open here for long.
   */
  take(key: string, retries: boolean, begin: BeginCall): SharedCall {
    const earlier = this.#calls.get(key);
    if (earlier?.adoptable === true) {
      earlier.join();
      return earlier;
    }
    const call = new SharedCall(begin, this.#graceMs);
    call.join();
    this.#calls.set(key, call);
    if (retries && earlier !== undefined) call.replace(earlier);
    return call;
  }
}
