import { z } from 'zod';

const toolCallSchema = z.strictObject({
  name: z.string().min(1),
  /** An object is written as Python writes JSON; a string is written as it stands, valid JSON or not. */
  arguments: z.union([z.record(z.string(), z.json()), z.string()]).default({}),
});

/** One text, or several of which each sample takes one with equal probability. */
const wording = z.union([z.string(), z.array(z.string()).min(1)]);

const turnSchema = z
  .strictObject({
    thinking: wording.optional(),
    text: wording.optional(),
    tool_calls: z.array(toolCallSchema).min(1).optional(),
    /** The whole turn as text, special tokens spelled: for turns no well-formed message would give. */
    raw: z.string().min(1).optional(),
  })
  .refine((turn) => Object.keys(turn).length > 0, {
    message: 'a turn needs text, thinking, tool_calls or raw',
  })
  .refine((turn) => turn.raw === undefined || Object.keys(turn).length === 1, {
    message: 'raw is a whole turn: nothing may stand beside it',
  });
export type ScriptTurn = z.infer<typeof turnSchema>;

export interface ScriptBranch {
  readonly p: number;
  readonly when_tool_result_contains?: string | undefined;
  readonly turns: readonly ScriptStep[];
}
export type ScriptStep =
  | ScriptTurn
  | { readonly branches: readonly ScriptBranch[] }
  | { readonly repeat: number; readonly turns: readonly ScriptStep[] };

const stepSchema: z.ZodType<ScriptStep> = z.lazy(() =>
  z.unknown().transform((value, context): ScriptStep => {
    const kind = z.looseObject({ branches: z.unknown().optional(), repeat: z.unknown().optional() });
    const shape = kind.safeParse(value);
    const schema: z.ZodType<ScriptStep> = !shape.success
      ? turnSchema
      : shape.data.branches !== undefined
        ? branchesSchema
        : shape.data.repeat !== undefined
          ? repeatSchema
          : turnSchema;
    const result = schema.safeParse(value);
    if (result.success) return result.data;
    for (const issue of result.error.issues) context.issues.push({ ...issue, input: value } as never);
    return z.NEVER;
  }),
);

const branchSchema: z.ZodType<ScriptBranch> = z.lazy(() =>
  z.strictObject({
    /** Weight among the branches that take part; they need not add up to 1. */
    p: z.number().positive().default(1),
    when_tool_result_contains: z.string().min(1).optional(),
    turns: z.array(stepSchema),
  }),
);

const branchesSchema: z.ZodType<ScriptStep> = z.lazy(() =>
  z.strictObject({
    branches: z
      .array(branchSchema)
      .min(1)
      .refine((branches) => branches.some((branch) => branch.when_tool_result_contains === undefined), {
        message: 'one branch must have no condition, for when none holds',
      }),
  }),
);

const repeatSchema: z.ZodType<ScriptStep> = z.lazy(() =>
  z.strictObject({ repeat: z.int().min(1).max(10_000), turns: z.array(stepSchema).min(1) }),
);

const scriptSchema = z.strictObject({
  /** For logs. Default: the match. */
  name: z.string().min(1).optional(),
  /** Text that stands in a user message of the episode; the first script whose text is found plays. */
  match: z.string().min(1),
  turns: z.array(stepSchema).min(1),
});
export type Script = z.infer<typeof scriptSchema>;

export const scriptFileSchema = z.strictObject({
  schema: z.literal('rollpool.scripts/1'),
  scripts: z.array(scriptSchema),
});
