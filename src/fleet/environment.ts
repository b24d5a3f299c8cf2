import type { ChatMessage, FleetTask, Owner, Reaper, ToolDefinition } from '../contracts/index.ts';

/** `gone` = the provider says that it is not there any more: infra. */
export type EnvironmentState = 'running' | 'gone';

/** What a tool answered, as the model is to read it. */
export interface ToolResult {
  /** Never empty: a tool that answered nothing says so. */
  readonly text: string;
  /** `data:` URIs, in order. */
  readonly images: readonly string[];
  /** The tool failed, could not be reached in time, or does not exist; `text` says how. */
  readonly is_error: boolean;
}

export interface ToolCallOptions {
  /** Milliseconds for the call with all its retries; on expiry the result is an error text. */
  readonly timeout_ms: number;
  readonly signal: AbortSignal;
}

/** What the verifier is given, beside the environment itself. */
export interface VerifierRequest {
  /** null: none was submitted. */
  readonly final_answer: string | null;
  /** The main agent's messages in order, passed only to a verifier that declares `conversation`. */
  readonly conversation: readonly ChatMessage[];
  /** Of one execution, seconds; the wire takes 1 to 300. */
  readonly timeout_seconds: number;
  readonly signal: AbortSignal;
}

/**
 * One execution of a verifier, as the server told it. `success: false` is an execution that failed, not a grade of 0.
 * Source: facts on the execute call (result: a number, or an object with `score`, or null).
 */
export interface VerifierAnswer {
  readonly success: boolean;
  /** As it came. */
  readonly result: unknown;
  readonly error: { readonly type: string; readonly message: string; readonly traceback: string } | null;
  readonly stdout: string;
  readonly execution_ms: number | null;
}

/**
 * A running environment: tools over MCP, and the verifier that grades its state. Disposing it deletes it, whatever state
 * it is in; that never rejects for one that is gone already. All failures are EpisodeError.
 */
export interface Environment extends AsyncDisposable {
  readonly provider: string;
  /** The provider's own id. */
  readonly id: string;
  /**
   * The tools of its modality as chat completions take them. Waits for a list that is not empty; rejects (infra,
   * `no_tools`) when none came by `timeout_ms`.
   */
  tools(options: ToolCallOptions): Promise<readonly ToolDefinition[]>;
  /**
   * Calls a tool. A tool's failure is a result, never an error. Rejects with EpisodeError `environment_gone` (infra) when
   * the environment is not there any more, and with the signal's reason.
   */
  callTool(
    name: string,
    args: Readonly<Record<string, unknown>>,
    options: ToolCallOptions,
  ): Promise<ToolResult>;
  /** Asks the provider; one that does not answer counts as running, since its tools will tell. Never rejects. */
  state(): Promise<EnvironmentState>;
  /** Gives it more time to live where the provider can; else nothing. */
  extend(seconds: number): Promise<void>;
  /**
   * Executes the task's verifier once. Rejects with EpisodeError: infra where the service failed (retryable where trying
   * again can help), task where the verifier cannot even be sent (no function in it, an unknown id).
   */
  verify(request: VerifierRequest): Promise<VerifierAnswer>;
  /** Facts for the result's metrics: what creation cost, whether a part was missing. */
  readonly metrics: Readonly<Record<string, number | boolean | string>>;
}

export interface EnvironmentRequest {
  readonly task: FleetTask;
  readonly owner: Owner;
  /** Seconds the creation may take, waiting for a free place not counted. On expiry: infra, `boot_timeout`. */
  readonly boot_seconds: number;
  /** Seconds it may wait for a free place in all. On expiry: infra, `instance_limit`. */
  readonly wait_seconds: number;
  /** The provider's own time to live, seconds from creation. */
  readonly ttl_seconds: number;
  readonly signal: AbortSignal;
}

export interface EnvironmentProvider extends Reaper, AsyncDisposable {
  /** One clear error when this provider cannot work: out of reach, a wrong key. Safe to repeat. */
  probe(signal?: AbortSignal): Promise<void>;
  create(request: EnvironmentRequest): Promise<Environment>;
}
