import type { Redis } from 'ioredis';
import { z } from 'zod';
import { limitsSchema, samplingOverridesSchema } from '../contracts/index.ts';
import type { RunSettings } from './api.ts';
import { LeastRecent } from './least-recent.ts';
import type { QueueNames } from './names.ts';

/** Settings of a run as stored: `extra` always stands there, so that equal settings have equal texts. */
export const runSettingsSchema = z.strictObject({
  samples: z.int().positive(),
  sampling: samplingOverridesSchema,
  limits: limitsSchema,
  manifest_hash: z.string().nullable(),
  extra: z.record(z.string(), z.union([z.string(), z.number(), z.boolean(), z.null()])).default({}),
});

/** Settings of a batch as stored. Priority and deadline are those of its first submit. */
export const batchSettingsSchema = z.strictObject({
  samples: z.int().positive(),
  sampling: samplingOverridesSchema,
  limits: limitsSchema,
  priority: z.int(),
  deadline_at: z.number().nullable(),
});
export type BatchSettings = z.infer<typeof batchSettingsSchema>;

/** Parses; an Error names the field. */
export function parseSettings<T>(schema: z.ZodType<T>, value: unknown, what: string): T {
  const parsed = schema.safeParse(value);
  if (parsed.success) return parsed.data;
  const issue = parsed.error.issues[0]!;
  throw new Error(`${what}: ${issue.path.join('.') || 'value'}: ${issue.message}`);
}

/** Reads settings of runs, which never change, once each. */
export class RunReader {
  readonly #redis: Redis;
  readonly #names: QueueNames;
  readonly #kept = new LeastRecent<Promise<RunSettings | null>>(64);

  constructor(redis: Redis, names: QueueNames) {
    this.#redis = redis;
    this.#names = names;
  }

  /** null: there is no such run. */
  async read(run_id: string): Promise<RunSettings | null> {
    try {
      const settings = await this.#kept.get(run_id, () => this.#read(run_id));
      if (settings === null) this.#kept.forget(run_id);
      return settings;
    } catch (error) {
      this.#kept.forget(run_id);
      throw error;
    }
  }

  async #read(run_id: string): Promise<RunSettings | null> {
    const text = await this.#redis.hget(this.#names.run(run_id), 'settings');
    return text === null ? null : parseSettings(runSettingsSchema, JSON.parse(text), `run ${run_id}`);
  }
}
