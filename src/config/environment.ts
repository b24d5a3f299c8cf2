import { z } from 'zod';
import { callFormats, defaultLimits, samplingSchema, type EffectiveLimits } from '../contracts/index.ts';
import {
  concurrency,
  dockerHost,
  flag,
  fleetUrl,
  lanes,
  networks,
  numberText,
  plainText,
  policyUrls,
  prefix,
  redisUrl,
  serviceUrl,
} from './parsers.ts';

/** What the documentation and the fault messages need to know of a variable beyond its schema. */
export interface VariableNote {
  readonly section: string;
  /** One or two sentences. */
  readonly about: string;
  /** How its absence is described; the schema's default where there is one. */
  readonly absent: string;
  /** Its value stands in no message, and it has a variant `NAME_FILE` that names a file with the value. */
  readonly secret?: true;
}

const variableNotes = z.registry<VariableNote>();

function variable<T extends z.ZodType>(schema: T, note: VariableNote): T {
  variableNotes.add(schema, note);
  return schema;
}

const seconds = numberText(z.number().positive('must be above 0'));
const count = numberText(z.int('must be a whole number').positive('must be above 0'));

const aboutLimits: Record<keyof EffectiveLimits, string> = {
  boot_seconds: 'Seconds a sandbox may take to start.',
  setup_seconds: "Seconds a task's setup commands may take together.",
  agent_seconds: 'Seconds the agent may take, time held by a paused policy not counted.',
  turn_seconds: 'Seconds one model call may take with its retries, time held not counted.',
  tool_seconds: 'Seconds one tool call may take with its retries.',
  hold_seconds: 'Seconds an episode waits for a policy that is paused or out of reach.',
  grade_seconds: 'Seconds one verify command may take.',
  grade_total_seconds: 'Seconds all verify commands of an episode may take together.',
  publish_seconds: 'Seconds the storing of a result may take.',
  max_turns: 'Model calls of the main agent in one episode.',
  max_output_tokens: 'Tokens one call may sample.',
  context_tokens: 'Tokens of prompt and completion of one call.',
  max_sampled_tokens: 'Tokens an episode may sample in all.',
};

type Names<T, Prefix extends string> = { [K in keyof T & string as `${Prefix}${Uppercase<K>}`]: T[K] };

/** The variable of a limit or a sampling field. */
export function variableName(field: string): string {
  return `ROLLPOOL_${field.toUpperCase()}`;
}

const limitVariables = Object.fromEntries(
  Object.entries(aboutLimits).map(([name, about]) => {
    const fallback = defaultLimits[name as keyof EffectiveLimits];
    const schema = (name.endsWith('_seconds') ? seconds : count).default(fallback);
    return [
      variableName(name),
      variable(schema, { section: 'Deadlines and limits', about, absent: `${fallback}` }),
    ];
  }),
) as Names<Record<keyof EffectiveLimits, z.ZodDefault<z.ZodType<number, string>>>, 'ROLLPOOL_'>;

const samplingVariables = Object.fromEntries(
  Object.entries(samplingSchema.shape).map(([name, field]) => {
    const fallback = field.parse(undefined);
    const schema = numberText(field.unwrap() as z.ZodType<number, number>).default(fallback as number);
    const absent = fallback === null ? "the engine's own" : `${fallback}`;
    return [
      variableName(name),
      variable(schema, {
        section: 'Sampling',
        about: `\`${name}\` of every model call; a run's and a batch's own values go over it.`,
        absent,
      }),
    ];
  }),
) as unknown as Names<
  { [K in keyof typeof samplingSchema.shape]: z.ZodType<z.infer<(typeof samplingSchema.shape)[K]>> },
  'ROLLPOOL_'
>;

/** Every variable that rollpool reads, from its text to its value. */
export const environmentSchema = z.object({
  REDIS_URL: variable(redisUrl.optional(), {
    section: 'Redis',
    about:
      '`redis://`, `rediss://` (TLS) or `unix:///path/to/redis.sock`, with password and database if any.',
    absent: '`rollpool run` starts a Redis of its own under ROLLPOOL_STATE_DIR; other commands use that one',
    secret: true,
  }),
  ROLLPOOL_PREFIX: variable(prefix.default('{rollpool}'), {
    section: 'Redis',
    about: 'Name before every key, for several pools in one Redis. It becomes the hash tag: `a` is `{a}`.',
    absent: '`{rollpool}`',
  }),
  ROLLPOOL_POLICY_URL: variable(policyUrls.default([]), {
    section: 'Policy',
    about:
      'Base URL of the inference server; several replicas are separated by commas. `/v1` at the end is ignored.',
    absent: 'no policy: what needs one says so',
  }),
  ROLLPOOL_POLICY_API_KEY: variable(plainText.optional(), {
    section: 'Policy',
    about: 'Bearer token for the inference server. It stays in the worker and never enters a sandbox.',
    absent: 'no key is sent',
    secret: true,
  }),
  ROLLPOOL_MODEL: variable(plainText.optional(), {
    section: 'Policy',
    about: 'Name of the model, as the inference server knows it.',
    absent: 'the only model the server lists',
  }),
  ROLLPOOL_POLICY_STREAMING: variable(flag.default(false), {
    section: 'Policy',
    about:
      'Whether the inference server streams its answers to the worker: agents that stream read them while they come, and the tokens of a call that is cut are counted. Only vLLM streams token ids.',
    absent: '`false`: whole answers',
  }),
  ROLLPOOL_TOOL_CALL_PARSER: variable(z.enum(['auto', 'off', ...callFormats]).default('auto'), {
    section: 'Policy',
    about: `How the model writes tool calls, by the name of the inference server's parser. Where it is known, a conversation goes on from its recorded token ids and no template can break its prefix. \`off\`: every prompt is text. One of: ${callFormats.join(', ')}.`,
    absent: '`auto`: read off the chat template, else text',
  }),
  ROLLPOOL_REPLICA_CALLS: variable(count.optional(), {
    section: 'Policy',
    about:
      "Model calls that one worker process has on one replica at once. Further calls wait, which counts as time held and not as the turn's.",
    absent: 'no limit: the inference server queues',
  }),
  ROLLPOOL_LANES: variable(lanes.optional(), {
    section: 'Worker',
    about: 'Lanes this worker serves, separated by commas: `claude_code-docker,fleet`.',
    absent: 'those that a probe at the start finds possible',
  }),
  ROLLPOOL_CONCURRENCY: variable(concurrency.optional(), {
    section: 'Worker',
    about:
      'Episodes at once on each lane: `8`, or by lane: `claude_code-docker=4,fleet=32`, or both: `8,fleet=32`.',
    absent: 'a number that fits the machine',
  }),
  ROLLPOOL_ALLOW_LOCAL: variable(flag.default(false), {
    section: 'Worker',
    about:
      'Whether `worker` may serve `claude_code-local`, whose sandbox is a directory and isolates nothing. `run` needs no permission.',
    absent: '`false`',
  }),
  ROLLPOOL_LOCK_SECONDS: variable(seconds.default(60), {
    section: 'Worker',
    about:
      'Seconds without a sign of life after which an episode counts as lost and runs again. Longer than the longest outage of Redis to be survived without running again.',
    absent: '60',
  }),
  ROLLPOOL_LOCK_RENEW_SECONDS: variable(seconds.default(10), {
    section: 'Worker',
    about: 'Seconds between two signs of life; at most a third of ROLLPOOL_LOCK_SECONDS.',
    absent: '10',
  }),
  ROLLPOOL_STALLED_SECONDS: variable(seconds.default(12), {
    section: 'Worker',
    about: 'Seconds between two searches for lost episodes.',
    absent: '12',
  }),
  ROLLPOOL_MAX_ATTEMPTS: variable(count.default(4), {
    section: 'Worker',
    about: 'Starts of one episode, on all machines together, before an infrastructure failure is its result.',
    absent: '4',
  }),
  ROLLPOOL_LOG_LEVEL: variable(
    z.enum(['fatal', 'error', 'warn', 'info', 'debug', 'trace', 'silent']).default('info'),
    {
      section: 'Worker',
      about: '`fatal`, `error`, `warn`, `info`, `debug`, `trace` or `silent`.',
      absent: '`info`',
    },
  ),
  ROLLPOOL_STATE_DIR: variable(plainText.optional(), {
    section: 'Worker',
    about: "Directory for what outlives a command: the embedded Redis's data, the flight recorder's traces.",
    absent: '`$XDG_STATE_HOME/rollpool`, else `~/.local/state/rollpool`',
  }),
  ROLLPOOL_TRACE: variable(flag.default(true), {
    section: 'Flight recorder',
    about:
      "Whether a worker keeps each episode's model calls on its disk, for `rollpool trace` (docs/trace.md).",
    absent: '`true`',
  }),
  ROLLPOOL_TRACE_MB: variable(count.default(1_024), {
    section: 'Flight recorder',
    about:
      'Megabytes (2^20 bytes) that traces take together under one state directory, about; the oldest go first.',
    absent: '1024',
  }),
  ROLLPOOL_TRACE_HOURS: variable(numberText(z.number().positive('must be above 0')).default(168), {
    section: 'Flight recorder',
    about: 'Hours after its last line that a trace is removed.',
    absent: '168',
  }),
  ROLLPOOL_SANDBOX_IMAGE: variable(plainText.optional(), {
    section: 'Sandbox',
    about: 'Docker image for tasks that name none.',
    absent: '`rollpool-sandbox:bookworm`, which `scripts/build-sandbox-image` builds',
  }),
  ROLLPOOL_CLAUDE_CLI: variable(plainText.optional(), {
    section: 'Sandbox',
    about: 'Path of the Claude Code binary.',
    absent: 'the one of the optional npm dependency',
  }),
  ROLLPOOL_SANDBOX_DISK_MB: variable(count.default(10_240), {
    section: 'Sandbox',
    about:
      'Megabytes (2^20 bytes) that a Docker sandbox may write to its disk, for tasks that say nothing (`sandbox.disk_mb`).',
    absent: '10240',
  }),
  ROLLPOOL_DISK_FREE_MB: variable(numberText(z.int('must be a whole number').min(0)).default(5_120), {
    section: 'Sandbox',
    about:
      "Megabytes that must be free on the disk of the Docker daemon's machine before an image is brought in or a sandbox starts. 0: not looked at.",
    absent: '5120',
  }),
  ROLLPOOL_IMAGE_SECONDS: variable(seconds.default(1_800), {
    section: 'Sandbox',
    about: 'Seconds that the pull or the build of an image may take; the boot of a sandbox counts after it.',
    absent: '1800',
  }),
  ROLLPOOL_SANDBOX_REACH: variable(z.enum(['auto', 'socket', 'tunnel']).default('auto'), {
    section: 'Sandbox',
    about:
      "How a Docker sandbox reaches this worker's gateway: by a mounted `socket` (daemon and worker share their files) or by a `tunnel` over an exec (any daemon; needs python3 in the image).",
    absent: '`auto`: the socket where it works, else the tunnel',
  }),
  ROLLPOOL_EGRESS_PRIVATE: variable(networks.default([]), {
    section: 'Sandbox',
    about:
      'Private networks (CIDR, separated by commas) that an allow list of a task may lead to, such as a package mirror at `10.1.0.0/16`. Without it no private, loopback, link-local or metadata address is reached.',
    absent: 'none',
  }),
  ROLLPOOL_WARM_SANDBOXES: variable(numberText(z.int('must be a whole number').min(0)).default(0), {
    section: 'Sandbox',
    about:
      'Sandboxes that one worker process keeps ready ahead of demand, over all images and sizes that were asked for lately.',
    absent: '0: each is made when its episode starts',
  }),
  ROLLPOOL_WARM_CLI: variable(flag.default(false), {
    section: 'Sandbox',
    about:
      'Whether a ready sandbox also has the Claude Code CLI started and waiting for its prompt (89 MB each).',
    absent: '`false`',
  }),
  ROLLPOOL_KEEP_SANDBOXES: variable(numberText(z.int('must be a whole number').min(0)).default(0), {
    section: 'Sandbox',
    about:
      'Final states of sandboxes, as the agent left them, that are kept for `rollpool regrade`: the last so many of each provider.',
    absent: '0: none is kept',
  }),
  E2B_API_KEY: variable(plainText.optional(), {
    section: 'E2B',
    about: 'Key of the E2B service. It stays in the worker.',
    absent: 'no worker serves the lane `claude_code-e2b`',
    secret: true,
  }),
  E2B_API_URL: variable(serviceUrl.optional(), {
    section: 'E2B',
    about: 'Base URL of the control plane.',
    absent: "the vendor's, by E2B_DOMAIN",
  }),
  E2B_SANDBOX_URL: variable(serviceUrl.optional(), {
    section: 'E2B',
    about: 'Base URL of the sandboxes.',
    absent: "the vendor's, by E2B_DOMAIN",
  }),
  E2B_DOMAIN: variable(plainText.optional(), {
    section: 'E2B',
    about: 'Domain of a self-hosted E2B.',
    absent: '`e2b.app`',
  }),
  ROLLPOOL_E2B_TEMPLATE: variable(plainText.optional(), {
    section: 'E2B',
    about: 'Template for tasks that name none (`sandbox.template`).',
    absent: '`rollpool-claude-code`, which `rollpool template build` makes',
  }),
  ROLLPOOL_E2B_SANDBOXES: variable(count.default(20), {
    section: 'E2B',
    about: 'E2B sandboxes that all workers of the pool have at once.',
    absent: "20, the smallest plan's limit",
  }),
  ROLLPOOL_E2B_CREATES_PER_SECOND: variable(numberText(z.number().positive('must be above 0')).default(1), {
    section: 'E2B',
    about: 'E2B sandboxes that all workers of the pool create in a second.',
    absent: "1, the smallest plan's limit",
  }),
  FLEET_API_KEY: variable(plainText.optional(), {
    section: 'Fleet',
    about: 'Key of the Fleet service. It stays in the worker.',
    absent: 'no worker serves the lane `fleet`; `run` starts a local Fleet of its own',
    secret: true,
  }),
  FLEET_BASE_URL: variable(fleetUrl.optional(), {
    section: 'Fleet',
    about: 'Base URL of a service that speaks the Fleet wire, such as `rollpool local-fleet`.',
    absent: "the vendor's, when FLEET_API_KEY is set",
  }),
  ROLLPOOL_TOOL_MODE: variable(z.enum(['auto', 'native', 'text']).default('auto'), {
    section: 'Fleet',
    about:
      "How the policy calls tools: `native` by the inference server's tool parser, `text` as `<tool_call>` in its text.",
    absent: '`auto`: native where the server takes tools, else text',
  }),
  ROLLPOOL_PARTIAL_REWARD: variable(flag.default(false), {
    section: 'Fleet',
    about:
      "Whether a verifier's score of 0 becomes the share of its checks that passed, where it lists them (docs/fleet.md).",
    absent: '`false`',
  }),
  DOCKER_HOST: variable(dockerHost.optional(), {
    section: 'Sandbox',
    about: 'Docker daemon, as the docker command reads it.',
    absent: 'the usual sockets are tried',
  }),
  XDG_STATE_HOME: variable(plainText.optional(), {
    section: 'Worker',
    about: 'Read only for the default of ROLLPOOL_STATE_DIR.',
    absent: '`~/.local/state`',
  }),
  ...limitVariables,
  ...samplingVariables,
});

export type Environment = z.infer<typeof environmentSchema>;
export type VariableName = keyof Environment;

export const variableNames = Object.keys(environmentSchema.shape) as VariableName[];

/** The note of a variable. */
export function noteOf(name: VariableName): VariableNote {
  const note = variableNotes.get(environmentSchema.shape[name]);
  if (note === undefined) throw new Error(`the variable ${name} has no note`);
  return note;
}
