import { parse, TomlError } from 'smol-toml';
import { z } from 'zod';
import { faultsOf } from '../../normalise-task.ts';
import type { Notes } from './notes.ts';
import { parts } from './task-files.ts';

const seconds = z.number().positive();
const variables = z.record(z.string(), z.string());
const user = z.union([z.string(), z.int()]);
const size = z.string().regex(/^\s*\d+(\.\d+)?\s*[GMK]\s*$/i, 'must be a size such as 2G or 512M');

const network = {
  network_mode: z.enum(['public', 'no-network', 'allowlist']).optional(),
  allowed_hosts: z.array(z.string().min(1)).optional(),
};

const environmentSchema = z.looseObject({
  build_timeout_sec: seconds.optional(),
  docker_image: z.string().optional(),
  os: z.string().optional(),
  cpus: z.number().positive().optional(),
  memory_mb: z.int().positive().optional(),
  storage_mb: z.int().positive().optional(),
  /** Of version 1.0. */
  memory: size.optional(),
  storage: size.optional(),
  gpus: z.int().nonnegative().optional(),
  gpu_types: z.array(z.string()).optional(),
  tpu: z.unknown().optional(),
  mcp_servers: z.array(z.unknown()).optional(),
  env: variables.optional(),
  skills_dir: z.string().optional(),
  healthcheck: z.unknown().optional(),
  workdir: z.string().optional(),
  /** Of versions before network_mode. */
  allow_internet: z.boolean().optional(),
  ...network,
});

const artifactSchema = z.looseObject({
  source: z.string().min(1),
  destination: z.string().optional(),
  exclude: z.array(z.string()).optional(),
  service: z.string().optional(),
});

const sections = {
  environment: environmentSchema,
  agent: z.looseObject({ timeout_sec: seconds.optional(), user: user.optional(), ...network }),
  verifier: z.looseObject({
    timeout_sec: seconds.optional(),
    env: variables.optional(),
    user: user.optional(),
    environment_mode: z.enum(['shared', 'separate']).optional(),
    environment: z.unknown().optional(),
    collect: z.array(z.unknown()).optional(),
    ...network,
  }),
};

const version = z.union([z.string(), z.number()]).transform(String);

const configSchema = z.looseObject({
  schema_version: version.optional(),
  /** Its older name. */
  version: version.optional(),
  task: z.looseObject({ name: z.string().min(1).max(512).optional() }).optional(),
  metadata: z.record(z.string(), z.unknown()).optional(),
  environment: sections.environment.default({}),
  agent: sections.agent.default({}),
  verifier: sections.verifier.default({}),
  solution: z.unknown().optional(),
  source: z.unknown().optional(),
  multi_step_reward_strategy: z.unknown().optional(),
  steps: z.array(z.unknown()).optional(),
  artifacts: z.array(z.union([z.string().min(1), artifactSchema])).optional(),
});

/** A task.toml, of any version 1.x of Harbor's schema. Source: its models, and the public tasks in that format. */
export type HarborConfig = z.infer<typeof configSchema>;

/** The version of the schema that this reads whole. */
const known = { major: 1, minor: 4 };

function noteVersion(config: HarborConfig, notes: Notes): void {
  const field = config.schema_version === undefined ? 'version' : 'schema_version';
  const given = config.schema_version ?? config.version;
  if (given === undefined) return;
  const [, major, minor = '0'] = /^(\d+)(?:\.(\d+))?/.exec(given) ?? [];
  if (major === undefined)
    notes.warn(parts.config, field, `${JSON.stringify(given)} is no version; taken for 1`);
  else if (Number(major) > known.major) {
    notes.fault(parts.config, field, `is ${given}, and no version after ${known.major} is known`);
  } else if (Number(major) === known.major && Number(minor) > known.minor) {
    notes.warn(
      parts.config,
      field,
      `is ${given}; what came after ${known.major}.${known.minor} is not known`,
    );
  }
}

function noteUnknown(config: HarborConfig, notes: Notes): void {
  const warn = (value: object, schema: z.ZodObject, under: string): void => {
    for (const name of Object.keys(value)) {
      if (Object.hasOwn(schema.shape, name)) continue;
      notes.warn(parts.config, `${under}${name}`, 'is no field of the format; it is left aside');
    }
  };
  warn(config, configSchema, '');
  for (const [name, schema] of Object.entries(sections)) {
    warn(config[name as keyof typeof sections], schema, `${name}.`);
  }
}

/** Reads a task.toml; null where a fault makes it unusable. */
export function readConfig(text: string, notes: Notes): HarborConfig | null {
  let value: unknown;
  try {
    value = parse(text.replace(/^\uFEFF/, ''), { unsafeKeyBehaviour: 'drop' });
  } catch (fault) {
    if (!(fault instanceof TomlError)) throw fault;
    const [said = ''] = fault.message.replace(/^Invalid TOML document: /, '').split('\n');
    notes.fault(parts.config, '', `broken TOML at column ${fault.column}: ${said}`, fault.line);
    return null;
  }
  const parsed = configSchema.safeParse(value);
  if (!parsed.success) {
    for (const { field, reason } of faultsOf(parsed.error)) notes.fault(parts.config, field, reason);
    return null;
  }
  noteVersion(parsed.data, notes);
  noteUnknown(parsed.data, notes);
  return parsed.data;
}

/** Megabytes in a size such as `4G`. */
export function megabytes(text: string): number {
  const [, number = '0', unit = 'M'] = /^\s*([\d.]+)\s*([GMK])/i.exec(text) ?? [];
  return Math.floor(Number(number) * { G: 1024, M: 1, K: 1 / 1024 }[unit.toUpperCase() as 'G' | 'M' | 'K']);
}
