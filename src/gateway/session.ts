import type { CallRecord, EffectiveLimits, Failure, Sampling } from '../contracts/index.ts';
import type { ChatAnswer, ChatCaller, ChatRequest } from './chat.ts';

/** Which budget ended the agent's calls. The first one met counts. */
export type BudgetStop = 'max_turns' | 'max_tokens' | 'context_overflow' | 'timeout';

export interface SessionOptions {
  /** Names the run in what is written for people. Default: none. */
  readonly run_id?: string;
  readonly episode_id: string;
  readonly attempt: number;
  /** Names this attempt: bearer and socket directory derive from it. */
  readonly nonce: string;
  readonly sampling: Sampling;
  readonly limits: EffectiveLimits;
  /** Open a Unix socket for a sandbox. Default: true. */
  readonly unix_socket?: boolean;
}

/** What the episode reads off the gateway at any time. Times are milliseconds. */
export interface SessionStats {
  readonly calls: number;
  readonly main_turns: number;
  readonly prompt_tokens: number;
  readonly completion_tokens: number;
  readonly discarded_tokens: number;
  /** Wall time during which at least one call waited for or was served by the policy, held time not counted. */
  readonly model_ms: number;
  /** Wall time during which calls were held: policy paused or out of reach. */
  readonly hold_ms: number;
  /** The longest single call so far, one in flight included, held time not counted. */
  readonly longest_call_ms: number;
  readonly self_calls: number;
  readonly budget: BudgetStop | null;
  /** Set when the policy failed past its deadlines: the episode is infra. */
  readonly failure: Failure | null;
}

/**
 * The gateway's side of one attempt. The bearer routes and authorises; the policy's key never leaves the worker.
 * Disposing it aborts calls in flight, refuses new ones and removes the socket.
 */
export interface GatewaySession extends AsyncDisposable {
  /** The agent's credential: random, for this attempt only. */
  readonly bearer: string;
  /**
   * Takes a second bearer for this attempt, that of an agent which was started before there was a session. It is good from
   * now on for as long as the session's own. Throws when it is too short to be a secret, in use, or the session has ended.
   */
  adopt(bearer: string): void;
  /** Base URL on loopback TCP, without `/v1`. */
  readonly url: string;
  /** Directory (0711) that holds `gw.sock` (0666); null without a Unix socket. At most 100 bytes with the file name. */
  readonly socket_dir: string | null;
  /** Chat from inside this process: the same budgets, recording and faults, no HTTP. */
  chat(request: ChatRequest, caller: ChatCaller): Promise<ChatAnswer>;
  stats(): SessionStats;
  /** Fires once when `stats().failure` is set. */
  readonly failed: AbortSignal;
  /** Stops serving (calls in flight are aborted and recorded so), then gives every call in order of arrival. Idempotent. */
  finish(): Promise<readonly CallRecord[]>;
}

export interface SessionFactory {
  open(options: SessionOptions): Promise<GatewaySession>;
}
