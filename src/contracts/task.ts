import { z } from 'zod';
import { allowEntrySchema } from './allow-entry.ts';
import { limitsSchema } from './limits.ts';

/** A file's content: text, or bytes as base64. */
export const fileContentSchema = z.union([z.string(), z.strictObject({ base64: z.base64() })]);
export type FileContent = z.infer<typeof fileContentSchema>;

const relativePath = z
  .string()
  .min(1)
  .refine((path) => !path.startsWith('/') && !path.split('/').includes('..') && !path.includes('\0'), {
    message: 'must be a path inside the working directory',
  });

/** Path relative to the working directory -> content. */
export const filesSchema = z.record(relativePath, fileContentSchema);
export type Files = z.infer<typeof filesSchema>;

const key = z
  .string()
  .min(1)
  .max(512)
  .refine((value) => !value.includes('\0'), { message: 'must not contain NUL' });

/** What a sandbox reaches: nothing, all that Docker's bridge leads to, or the hosts of a list (docs/network.md). */
export const networkSchema = z.union([
  z.enum(['none', 'open']),
  z.strictObject({ allow: z.array(allowEntrySchema).min(1).max(256) }),
]);

/** A directory to build an image from. Optional parts of a task have no defaults here: its hash must not change with them. */
export const imageBuildSchema = z
  .strictObject({
    /** The build context: paths below its root. Files with `executable` names keep that bit. */
    files: filesSchema,
    /** Path of the Dockerfile in `files`. Absent: `Dockerfile`. */
    dockerfile: relativePath.optional(),
    /** Paths in `files` that are executable. */
    executable: z.array(relativePath).optional(),
    /** Seconds the build may take. Absent: the worker's setting. */
    seconds: z.number().positive().optional(),
  })
  .refine(({ files, dockerfile }) => Object.hasOwn(files, dockerfile ?? 'Dockerfile'), {
    path: ['files'],
    message: 'must hold the Dockerfile (dockerfile names another one)',
  })
  .refine(({ files, executable }) => (executable ?? []).every((path) => Object.hasOwn(files, path)), {
    path: ['executable'],
    message: 'must name paths in files',
  });
export type ImageBuild = z.infer<typeof imageBuildSchema>;

export const sandboxSpecSchema = z
  .strictObject({
    /** Docker image; absent = the worker's default image. */
    image: z.string().min(1).optional(),
    /** What the Docker image is built from, once on each host; instead of `image`. */
    build: imageBuildSchema.optional(),
    /** E2B template. */
    template: z.string().min(1).optional(),
    cpus: z.number().positive().default(1),
    memory_mb: z.int().min(64).default(2048),
    /** Megabytes (2^20 bytes) it may write to its disk. Absent: the worker's setting. */
    disk_mb: z.int().min(16).optional(),
    network: networkSchema.default('none'),
    /** Where the agent works; created when absent. */
    workdir: z.string().startsWith('/').default('/workspace'),
  })
  .refine(({ image, build }) => image === undefined || build === undefined, {
    path: ['build'],
    message: 'is instead of image: give one of them',
  });
export type SandboxSpec = z.infer<typeof sandboxSpecSchema>;

/**
 * `all` is 1 when every command passes, else 0; `fraction` is passed commands / commands; `junit:PATH` is
 * passed tests / tests of a JUnit file; `file:PATH` is the number in a file. PATH is relative to the working
 * directory, is removed before the verify commands run and must be written by them. `harbor` is the number in
 * /logs/verifier/reward.txt, or the numbers in reward.json beside it.
 */
export const rewardRuleSchema = z.union([
  z.enum(['all', 'fraction', 'harbor']),
  z
    .string()
    .regex(/^(junit|file):(?!\/).+$/, 'must be all, fraction, harbor, junit:PATH or file:PATH')
    .refine((rule) => !rule.split(/[:/]/).includes('..'), {
      message: 'must stay inside the working directory',
    }),
]);

/** Directories an image needs as they are: emptying one for a verifier would take the sandbox apart. */
const systemDirectories =
  /^\/(?:bin|boot|etc|gw|home|lib|lib32|lib64|libx32|opt|root|run|sbin|srv|tmp|usr|var)$|^\/(?:dev|proc|sys)(?:\/|$)/;

function holds(directory: string, path: string): boolean {
  return `${path}/`.startsWith(`${directory}/`);
}

export const verifySchema = z
  .strictObject({
    files: filesSchema.default({}),
    /** Absolute directory that `files` go to; it is created empty. Absent: the working directory. */
    dir: z
      .string()
      .regex(/^\/[^\0]*[^/\0]$/, 'must be an absolute path other than /')
      .refine((path) => !/\/\.{0,2}(?:\/|$)/.test(path), { message: 'must not contain .., . or //' })
      .refine((path) => !systemDirectories.test(path), {
        message: 'must not be a directory of the system: it is emptied before the files come in',
      })
      .optional(),
    /** Who runs the commands: an unprivileged user of its own, or root. Absent: grader. */
    user: z.enum(['grader', 'root']).optional(),
    /**
     * Where they run: in the agent's sandbox once its processes are dead, or in a fresh one of the same task that gets only
     * `artifacts` from it. Absent: same.
     */
    sandbox: z.enum(['same', 'fresh']).optional(),
    /** With `sandbox: fresh`: files and directories below the working directory that are taken over, links excluded. */
    artifacts: z.array(relativePath).min(1).optional(),
    commands: z.array(z.string().min(1)).min(1),
    reward: rewardRuleSchema.default('all'),
    /** Inclusive bounds; a reward outside them is not a reward. */
    reward_range: z
      .tuple([z.number(), z.number()])
      .default([0, 1])
      .refine(([low, high]) => low < high, { message: 'must be [low, high] with low < high' }),
  })
  .superRefine((verify, context) => {
    const refuse = (field: string, message: string): void => {
      context.addIssue({ code: 'custom', path: [field], message });
    };
    if (verify.sandbox === 'fresh' && verify.artifacts === undefined) {
      refuse('artifacts', 'must name what a fresh sandbox gets of the agent (verify.sandbox is fresh)');
    }
    if (verify.sandbox !== 'fresh' && verify.artifacts !== undefined) {
      refuse('artifacts', 'is only for verify.sandbox fresh');
    }
    if (verify.dir !== undefined && verify.reward === 'harbor') {
      const logs = '/logs/verifier';
      if (holds(verify.dir, logs) || holds(logs, verify.dir)) {
        refuse('dir', `must be apart from ${logs}, where reward harbor has its files`);
      }
    }
  });
export type Verify = z.infer<typeof verifySchema>;

const shared = {
  task_key: key,
  prompt: z.string().refine((text) => text.trim() !== '', { message: 'must not be empty' }),
  limits: limitsSchema.default({}),
  /** Echoed on every result. */
  metadata: z.record(z.string(), z.json()).default({}),
};

export const claudeCodeTaskSchema = z
  .strictObject({
    ...shared,
    kind: z.literal('claude_code'),
    sandbox: sandboxSpecSchema.prefault({}),
    files: filesSchema.default({}),
    /** Shell commands that prepare the working directory, in order, before the agent starts. */
    setup: z.array(z.string().min(1)).default([]),
    verify: verifySchema,
  })
  .superRefine(({ sandbox, verify }, context) => {
    const workdir = sandbox.workdir.replace(/(?<=.)\/+$/, '');
    if (verify.dir !== undefined && holds(verify.dir, workdir)) {
      const message = 'must not be or hold sandbox.workdir: it is emptied before the files come in';
      context.addIssue({ code: 'custom', path: ['verify', 'dir'], message });
    }
  });
export type ClaudeCodeTask = z.infer<typeof claudeCodeTaskSchema>;

/** Null anywhere: the service decides, or there is none. Names in exports, and what is refused: docs/tasks.md. */
export const fleetTaskSchema = z.strictObject({
  ...shared,
  kind: z.literal('fleet'),
  /** Without its version. */
  env_key: z.string().min(1),
  /** As the wire has it: `v1.2.5`. */
  env_version: z.string().nullable().default(null),
  data_key: z.string().nullable().default(null),
  data_version: z.string().nullable().default(null),
  region: z.string().nullable().default(null),
  image_type: z.string().nullable().default(null),
  env_variables: z.record(z.string(), z.json()).default({}),
  /** Python; its first function grades. A task that is read from a file has this or `verifier_id`. */
  verifier_code: z.string().nullable().default(null),
  /** Where the service has the code; asked only without `verifier_code`. */
  verifier_id: z.string().nullable().default(null),
  verifier_runtime_version: z.string().nullable().default(null),
  modality: z.enum(['tool_use', 'computer_use', 'browser_use']).default('tool_use'),
});
export type FleetTask = z.infer<typeof fleetTaskSchema>;

/** A task in its normal form: what a reader yields and what is stored once under its hash. */
export const taskSchema = z.discriminatedUnion('kind', [claudeCodeTaskSchema, fleetTaskSchema]);
export type Task = z.infer<typeof taskSchema>;
export type TaskKind = Task['kind'];
