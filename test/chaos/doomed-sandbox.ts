/** A worker process with sandboxes, which kills itself in the phase that it is told: `doomed-sandbox.ts OPTIONS`. */
import { randomBytes } from 'node:crypto';
import { agentDone, createInProcessAgent } from '../../src/agents/in-process.ts';
import { taskSchema } from '../../src/contracts/index.ts';
import { createEpisodeProcessor } from '../../src/episode/index.ts';
import { createGateway } from '../../src/gateway/index.ts';
import { createCommandGrader } from '../../src/grading/index.ts';
import { setCrashHook, silentLogger } from '../../src/observe/index.ts';
import { createPlaceLimit } from '../../src/queue/control/index.ts';
import { createQueue } from '../../src/queue/index.ts';
import { newWorkerId, startHeartbeat } from '../../src/queue/workers-alive.ts';
import { createSandboxProvider } from '../../src/sandbox/index.ts';
import type { Sandbox, SandboxProvider } from '../../src/sandbox/index.ts';
import { makeRuntimeDirectory } from '../../workers/runtime-directory.ts';
import {
  placeLeaseMs,
  type DoomedOptions,
  type DoomedProvider,
  type SandboxPhase,
} from './sandbox-phases.ts';

const options = JSON.parse(process.argv[2]!) as DoomedOptions;
const { phase, pool, redisUrl, providers } = options;

const die = (): void => void process.kill(process.pid, 'SIGKILL');
let waiting = 0;
/** Where an episode waits for those of the other providers, and then for the end. */
const at = async (here: SandboxPhase): Promise<void> => {
  if (here !== phase) return;
  waiting += 1;
  if (waiting === providers.length) die();
  await new Promise(() => setInterval(() => undefined, 60_000));
};
// The one phase that lies within a provider: for one of them at a time.
setCrashHook((point) => {
  if (point === 'sandbox.create:after' && phase === 'made') die();
});

/** The same object with some of its methods in place of its own. */
function over<T extends object>(target: T, methods: Partial<T>): T {
  return new Proxy(target, {
    get: (_target, name) => {
      const own =
        (methods as Record<PropertyKey, unknown>)[name] ?? (target as Record<PropertyKey, unknown>)[name];
      return typeof own === 'function' ? (own as (...args: unknown[]) => unknown).bind(target) : own;
    },
  });
}

/** Stops at the phases of a sandbox: while a command of theirs runs, or beside what ends it. */
function watched(sandbox: Sandbox): Sandbox {
  return over<Sandbox>(sandbox, {
    exec: async (command, given) => {
      const running = sandbox.exec(command, given);
      if (String(command).includes('phase setup')) await at('setup');
      if (String(command).includes('phase grade')) await at('grade');
      return running;
    },
    snapshot: async (owner, timeout) => {
      const name = await sandbox.snapshot!(owner, timeout);
      await at('snapshot');
      return name;
    },
    [Symbol.asyncDispose]: async () => {
      await at('teardown');
      await sandbox[Symbol.asyncDispose]();
      await at('torn down');
    },
  });
}

function watchedProvider(provider: SandboxProvider): SandboxProvider {
  return over<SandboxProvider>(provider, {
    create: async (request) => {
      await at('boot');
      return watched(await provider.create(request));
    },
    provide: async (spec, signal) => {
      const bringing = provider.provide?.(spec, signal);
      await at('provide');
      await bringing;
    },
  });
}

const queue = await createQueue({ redisUrl, prefix: pool });
const worker = newWorkerId();
await startHeartbeat({
  redis: queue.redis,
  names: queue.names,
  everyMs: 5_000,
  ttlMs: 600_000,
  record: () =>
    ({ worker, seen_at: Date.now(), lanes: { 'claude_code-docker': 1, 'claude_code-e2b': 1 } }) as never,
});
const runtime = await makeRuntimeDirectory(worker, pool);
const limit = await createPlaceLimit({
  redisUrl,
  prefix: pool,
  provider: 'e2b',
  places: 100,
  createsPerSecond: null,
  pace: { leaseMs: placeLeaseMs },
});
const gateway = await createGateway({
  policy: { urls: [options.policyUrl], model: 'scripted', logprobsMode: 'processed' },
  runtimeDir: runtime.path,
  log: silentLogger,
});
const task = taskSchema.parse({
  task_key: 't',
  kind: 'claude_code',
  prompt: 'p',
  setup: ['echo phase setup > set-up'],
  verify: { commands: ['echo phase grade; test -f set-up'] },
});
if (task.kind !== 'claude_code') throw new Error('the task is not what it was made as');
const { sandbox: spec } = task;
const signal = new AbortController().signal;
const nonce = (): string => randomBytes(8).toString('hex');

async function prepare(provider: SandboxProvider): Promise<void> {
  const owner = { pool, worker, run_id: '', episode_id: 'ready', attempt: 0, nonce: nonce() };
  await provider.prepare!({ spec, owner, cli_binary: null, ttl_seconds: 3_600, signal });
}

/** One episode of a provider. */
async function live(name: DoomedProvider): Promise<void> {
  const provider = createSandboxProvider(name, {
    runtimeDirectory: runtime.path,
    e2b: { connection: { ...options.e2b, domain: null }, template: 'base', limit },
  });
  if (phase === 'ready ahead') {
    await prepare(provider);
    await at(phase);
  }
  const agent = createInProcessAgent(async ({ sandbox, session }) => {
    // Something that outlives its parent and ignores signals, as agents leave behind.
    const command = 'trap "" TERM HUP; (setsid sleep 3600 &) ; echo started';
    await sandbox!.exec(command, { user: 'agent', timeout_ms: 120_000 });
    await at('agent');
    const answer = await session.chat(
      { messages: [{ role: 'user', content: 'I act' }] },
      { agent_id: 'main', role: 'main', signal },
    );
    answer.delivered(true);
    if (phase === 'living') {
      await prepare(provider);
      process.stdout.write(`living ${name}\n`);
      await new Promise(() => setInterval(() => undefined, 60_000));
    }
    return agentDone();
  });
  const act = createEpisodeProcessor({
    sessions: gateway,
    partsFor: () => ({
      provider: watchedProvider(provider),
      agent,
      grader: createCommandGrader(),
      cli_binary: null,
    }),
    policy: { model: 'scripted', logprobs_mode: 'processed', version_source: 'none' },
    limits: { boot_seconds: 300, setup_seconds: 300, grade_total_seconds: 300 },
    sampling: {},
    pool,
    keep_sandboxes: phase === 'snapshot' ? 1 : 0,
    log: silentLogger,
  });
  const { summary } = await act({
    job: {
      schema: 1,
      run_id: 'r',
      batch_id: '0',
      episode_id: `e-${name}`,
      group_id: 'g',
      group_size: 1,
      sample_index: 0,
      task_key: task.task_key,
      task_ref: 'none',
      sampling: {},
      limits: {},
      priority: 0,
    },
    task,
    attempt: 1,
    nonce: nonce(),
    worker,
    lane: `claude_code-${name}`,
    queued_at: Date.now(),
    run: { sampling: {}, limits: {} },
    signal,
  });
  await at('publish');
  throw new Error(`${name} lived on through ${phase}: ${JSON.stringify(summary.failure)}`);
}

await Promise.all(providers.map(live));
