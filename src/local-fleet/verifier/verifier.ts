/** What the execute call of the wire asks for. */
export interface VerifierExecution {
  /** ZIP with `verifier.py`. */
  readonly bundle: Uint8Array;
  readonly function_name: string;
  /** Pickle of `{"args": (None, ..., {"env": id}), "kwargs": {...}}`. */
  readonly args: Uint8Array;
  readonly seedPath: string;
  readonly currentPath: string;
  readonly env_variables: Readonly<Record<string, unknown>>;
  readonly timeout_seconds: number;
  readonly signal: AbortSignal;
}

/** What became of it; a verifier that raised, hung or used too much has `success: false`. */
export interface VerifierOutcome {
  readonly success: boolean;
  readonly result: unknown;
  readonly error: { readonly type: string; readonly message: string; readonly traceback: string } | null;
  readonly stdout: string;
  readonly execution_time_ms: number;
}
