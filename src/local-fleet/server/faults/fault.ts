import { z } from 'zod';

/** Which occasions a fault is done at. */
const occasions = {
  /** How often it is done; `always` until it is removed. Default: 1. */
  times: z.union([z.int().positive(), z.literal('always')]).default(1),
  /** Fitting occasions let pass first. Default: 0. */
  skip: z.int().min(0).default(0),
  /** Instance it is done to. Default: all. */
  instance: z.string().optional(),
  /** Run it is done to. Default: all. */
  run_id: z.string().optional(),
};

/** What a test can have the server do wrong. The texts are the ones seen of the real service. */
export const faultSchema = z.discriminatedUnion('kind', [
  // Of `POST /v1/env/instances`; these have no instance yet.
  /** A placement failure (400, `"retryable": true`), or 503. */
  z.strictObject({
    kind: z.literal('create_transient'),
    as: z.enum(['seed_placement', 'unavailable']).default('seed_placement'),
    ...occasions,
  }),
  /** 429, too many creations at once. `retry_after` in seconds; null: no such header. */
  z.strictObject({
    kind: z.literal('create_burst'),
    retry_after: z.number().min(0).nullable().default(null),
    ...occasions,
  }),
  /** 403, the team's instance limit: in words, or as `error_type` with numbers. */
  z.strictObject({
    kind: z.literal('create_limit'),
    shape: z.enum(['text', 'error_type']).default('text'),
    ...occasions,
  }),
  /** The instance is made, and the answer lost: the connection is cut, or a gateway says 504. */
  z.strictObject({
    kind: z.literal('create_lost'),
    as: z.enum(['cut', 'gateway_timeout']).default('cut'),
    ...occasions,
  }),
  /** It takes this many milliseconds longer. */
  z.strictObject({ kind: z.literal('create_slow'), ms: z.int().positive(), ...occasions }),

  /** 401 to any request that needs a key. */
  z.strictObject({ kind: z.literal('wrong_key'), ...occasions }),

  // Of an instance's own URL.
  /** 502 with an HTML page instead of the instance. */
  z.strictObject({
    kind: z.literal('bad_gateway'),
    on: z.enum(['mcp', 'manager', 'any']).default('any'),
    ...occasions,
  }),
  /** 404: this image does not have the endpoint. `mcp` is `{root}mcp`, `aggregator` is `{root}api/v1/mcp`. */
  z.strictObject({
    kind: z.literal('endpoint_missing'),
    endpoint: z.enum(['mcp', 'aggregator']),
    ...occasions,
  }),

  // Of MCP.
  /** The tool list is empty. */
  z.strictObject({ kind: z.literal('tools_late'), ...occasions }),
  /** A call takes this many milliseconds longer. */
  z.strictObject({
    kind: z.literal('tool_slow'),
    ms: z.int().positive(),
    tool: z.string().optional(),
    ...occasions,
  }),
  /** A call that is never answered and does nothing. */
  z.strictObject({ kind: z.literal('tool_hang'), tool: z.string().optional(), ...occasions }),
  /** The session of a call is unknown (404) from then on; the call does nothing. */
  z.strictObject({ kind: z.literal('session_lost'), tool: z.string().optional(), ...occasions }),
  /** The connection is cut in the middle of a call: before its work, or when `ran` after it. */
  z.strictObject({
    kind: z.literal('call_cut'),
    ran: z.boolean().default(false),
    tool: z.string().optional(),
    ...occasions,
  }),
  /** The instance ends by itself at the first call after this many. */
  z.strictObject({
    kind: z.literal('instance_gone'),
    after_calls: z.int().min(0).default(0),
    ...occasions,
  }),

  // Of `POST /v1/verifiers/execute`.
  /** The judge behind a verifier failed, and the score is made up. */
  z.strictObject({
    kind: z.literal('judge_error'),
    score: z.number().default(0),
    message: z.string().default('judge request timed out'),
    ...occasions,
  }),
  /** The verifier was not executed to its end: no grade. */
  z.strictObject({
    kind: z.literal('execution_failure'),
    type: z.string().default('RuntimeError'),
    message: z.string().default('verifier sandbox could not be started'),
    ...occasions,
  }),
  /** It succeeded with this result. What is not finite goes out as Python writes it (`NaN`, `Infinity`). */
  z.strictObject({ kind: z.literal('verifier_result'), result: z.unknown(), ...occasions }),
  /** The execute endpoint answers with this status. */
  z.strictObject({ kind: z.literal('execute_error'), status: z.int().min(500).max(599), ...occasions }),

  // Of `DELETE /v1/env/instances/{id}`.
  /** 404: the instance has ended just before. */
  z.strictObject({ kind: z.literal('delete_missing'), ...occasions }),
  /** 500, and nothing is deleted. */
  z.strictObject({ kind: z.literal('delete_error'), ...occasions }),
]);

export type Fault = z.infer<typeof faultSchema>;
export type FaultInput = z.input<typeof faultSchema>;
export type FaultKind = Fault['kind'];
export type FaultOf<K extends FaultKind> = Extract<Fault, { kind: K }>;
