import { z } from 'zod';

/** SQL as one text, or as lines for a file that people read. */
const sqlText = z
  .union([z.string(), z.array(z.string()).min(1)])
  .transform((sql) => (typeof sql === 'string' ? sql : sql.join('\n')))
  .refine((sql) => sql.trim() !== '', { message: 'must not be empty' });

/** Without an underscore, so that `$loan_id` can only mean column `id` of step `loan`. */
const stepName = z.string().regex(/^[a-z][a-z0-9]*$/, 'must be lowercase letters and digits');

const stepSchema = z
  .strictObject({
    sql: sqlText,
    /** Names its rows for later steps and the answer. */
    as: stepName.optional(),
    /** What must hold of it; else the tool answers `error` and everything it did is taken back. */
    expect: z.enum(['row', 'no_row', 'change']).optional(),
    error: z.string().min(1).optional(),
    /** Columns whose text is JSON, answered as what it says. */
    json: z.array(z.string().min(1)).default([]),
  })
  .refine((step) => (step.expect === undefined) === (step.error === undefined), {
    message: 'expect and error belong together',
  });
export type Step = z.infer<typeof stepSchema>;

export type Answer =
  | { readonly rows: string }
  | { readonly row: string }
  | { readonly value: string; readonly column: string }
  | { readonly changes: string }
  | { readonly text: string }
  | { readonly object: Readonly<Record<string, Answer>> };

const answerSchema: z.ZodType<Answer> = z.lazy(() =>
  z.union(
    [
      /** All rows of a step as objects. */
      z.strictObject({ rows: stepName }),
      /** Its first row, or null. */
      z.strictObject({ row: stepName }),
      /** One column of its first row, or null. */
      z.strictObject({ value: stepName, column: z.string().min(1) }),
      /** How many rows it inserted, updated or deleted. */
      z.strictObject({ changes: stepName }),
      z.strictObject({ text: z.string().min(1) }),
      z.strictObject({ object: z.record(z.string().min(1), answerSchema) }),
    ],
    {
      error: 'must be one of {rows}, {row}, {value, column}, {changes}, {text}, {object}, naming a step',
    },
  ),
);

const toolSchema = z.strictObject({
  name: z.string().regex(/^[A-Za-z0-9_-]{1,64}$/, 'must be 1 to 64 letters, digits, - or _'),
  description: z.string().min(1),
  /** JSON Schema of type object. */
  input_schema: z.looseObject({
    type: z.literal('object'),
    properties: z.record(z.string(), z.json()).default({}),
  }),
  steps: z.array(stepSchema).min(1),
  answer: answerSchema,
});
export type ToolDefinition = z.infer<typeof toolSchema>;

/** tools.json */
export const toolsFileSchema = z.strictObject({
  tools: z
    .array(toolSchema)
    .min(1)
    .refine((tools) => new Set(tools.map(({ name }) => name)).size === tools.length, {
      message: 'two tools have one name',
    }),
});

const relativeFile = z
  .string()
  .min(1)
  .refine((path) => !path.startsWith('/') && !path.split(/[/\\]/).includes('..'), {
    message: 'must be a file inside the folder',
  });

const dataSetSchema = z.strictObject({
  version: z.string().min(1),
  description: z.string().default(''),
  /** Run in order. Default: `seed/<data key>.sql`. */
  seed: z.array(relativeFile).min(1).optional(),
});

const variableSchema = z.strictObject({
  description: z.string().default(''),
  /** Of an instance whose task names none; absent: a task must name one. */
  default: z.union([z.string(), z.number(), z.boolean(), z.null()]).optional(),
});

/** environment.json */
export const environmentFileSchema = z
  .strictObject({
    schema: z.literal('rollpool.environment/1'),
    env_key: z.string().regex(/^[A-Za-z0-9._-]+$/, 'must be letters, digits, ., - or _'),
    version: z.string().regex(/^v[^:\s]+$/, 'must begin with v, such as v1.0.0'),
    name: z.string().min(1),
    description: z.string().default(''),
    default_data_key: z.string().min(1),
    data: z.record(
      z.string().regex(/^[A-Za-z0-9._-]+$/, 'must be letters, digits, ., - or _'),
      dataSetSchema,
    ),
    variables: z
      .record(z.string().regex(/^[A-Za-z][A-Za-z0-9_]*$/, 'must be a name'), variableSchema)
      .default({}),
    /** A step of a tool that gives more rows is answered with an error. */
    max_rows: z.int().min(1).max(10_000).default(200),
  })
  .refine((file) => file.default_data_key in file.data, {
    message: 'is not a key of data',
    path: ['default_data_key'],
  });
export type EnvironmentFile = z.infer<typeof environmentFileSchema>;
