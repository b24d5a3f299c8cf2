import { z } from 'zod';

/** What a task may spend. A field that is absent takes the worker's setting. */
export const limitsSchema = z.strictObject({
  /** Model calls of the main agent in one episode. */
  max_turns: z.int().positive().optional(),
  /** Seconds of wall clock the agent may take, time held by a paused policy not counted. */
  agent_seconds: z.number().positive().optional(),
  setup_seconds: z.number().positive().optional(),
  boot_seconds: z.number().positive().optional(),
  /** One model call with its retries. */
  turn_seconds: z.number().positive().optional(),
  tool_seconds: z.number().positive().optional(),
  /** One verify command. */
  grade_seconds: z.number().positive().optional(),
  /** All verify commands together. */
  grade_total_seconds: z.number().positive().optional(),
  /** Tokens one call may sample. */
  max_output_tokens: z.int().positive().optional(),
  /** Tokens of prompt and completion of one call. */
  context_tokens: z.int().positive().optional(),
  /** Tokens the whole episode may sample. */
  max_sampled_tokens: z.int().positive().optional(),
});
export type Limits = z.infer<typeof limitsSchema>;

/** Every limit with a value: what the phases of an episode work with. */
export interface EffectiveLimits {
  readonly boot_seconds: number;
  readonly setup_seconds: number;
  readonly agent_seconds: number;
  readonly turn_seconds: number;
  readonly tool_seconds: number;
  readonly hold_seconds: number;
  /** One verify command. */
  readonly grade_seconds: number;
  /** All verify commands together. */
  readonly grade_total_seconds: number;
  readonly publish_seconds: number;
  readonly max_turns: number;
  readonly max_output_tokens: number;
  readonly context_tokens: number;
  readonly max_sampled_tokens: number;
}

/** The defaults of the deadlines table; settings and then a task's limits go over them. */
export const defaultLimits: EffectiveLimits = Object.freeze({
  boot_seconds: 180,
  setup_seconds: 300,
  agent_seconds: 900,
  turn_seconds: 300,
  tool_seconds: 90,
  hold_seconds: 1800,
  grade_seconds: 120,
  grade_total_seconds: 600,
  publish_seconds: 60,
  max_turns: 30,
  max_output_tokens: 4096,
  context_tokens: 32_768,
  max_sampled_tokens: 60_000,
});

/** A task's limits over the worker's settings over the defaults. */
export function resolveLimits(...layers: (Partial<EffectiveLimits> | Limits)[]): EffectiveLimits {
  const given = layers.map((layer) =>
    Object.fromEntries(Object.entries(layer).filter(([, value]) => value !== undefined)),
  );
  return Object.freeze(Object.assign({}, defaultLimits, ...given) as EffectiveLimits);
}
