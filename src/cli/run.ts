import { closeSync, mkdirSync, openSync, readFileSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { join } from 'node:path';
import { Command, Option } from 'commander';
import { planProduce, produce } from '../../producer/index.ts';
import { probeLanes } from '../../workers/lanes.ts';
import { forkWorkers } from '../../workers/supervisor.ts';
import { probePolicies } from '../../workers/worker.ts';
import type { Settings } from '../config/index.ts';
import type { Lane, ResultSummary } from '../contracts/index.ts';
import type { RunStatus } from '../queue/index.ts';
import { BadUse, exitCodes } from './bad-use.ts';
import { openQueue, type QueueContext } from './context.ts';
import { withTaskFlags } from './enqueue.ts';
import { settingsOf, wholeNumber, withSettings } from './options.ts';
import { createProgress } from './progress.ts';
import { collectResults } from './collect-results.ts';
import { printResultTable } from './result-table.ts';
import { listenForShutdown, type Shutdown } from './shutdown.ts';
import { defaultRunId, printFaults } from './tasks-file.ts';

interface RunFlags extends Record<string, unknown> {
  readonly samples: number;
  readonly limit?: number;
  readonly runId?: string;
  readonly batch: string;
  readonly priority: number;
  readonly strict?: boolean;
  readonly retryFailed?: boolean;
  readonly sandbox: 'docker' | 'local';
  readonly processes: number;
  readonly out?: string;
  readonly json?: boolean;
  readonly allowUntrainable?: boolean;
}

export function runCommand(): Command {
  return withSettings(
    withTaskFlags(new Command('run')),
    'concurrency',
    'policyUrl',
    'model',
    'image',
    'logLevel',
  )
    .description('run a tasks file from start to end on this machine: queue, workers, progress, results')
    .argument('<tasks>', 'JSON array, {"tasks": [...]} or JSON lines')
    .addOption(
      new Option('--sandbox <provider>', 'where Claude Code tasks run; local does not isolate')
        .choices(['docker', 'local'])
        .default('docker'),
    )
    .option('--processes <n>', 'worker processes', wholeNumber(1), Math.min(2, availableParallelism()))
    .option('--out <dir>', 'directory of results.jsonl (default: out/<run id>)')
    .option('--allow-untrainable', 'run a policy that returns no ids or logprobs')
    .action(run);
}

async function run(file: string, flags: RunFlags): Promise<void> {
  const lane: Lane = `claude_code-${flags.sandbox}`;
  const settings = settingsOf(flags, {
    ROLLPOOL_LANES: lane,
    ...(flags.sandbox === 'local' ? { ROLLPOOL_ALLOW_LOCAL: 'true' } : {}),
  });
  using shutdown = listenForShutdown();
  shutdown.forced.addEventListener('abort', () => process.exit(exitCodes.someFailed));
  const tell = (line: string): void => void process.stderr.write(`${line}\n`);

  // Everything that can be wrong is looked at before anything is written.
  const reading = {
    ...(flags.limit === undefined ? {} : { limit: flags.limit }),
    ...(flags.strict === undefined ? {} : { strict: flags.strict }),
  };
  const plan = await planProduce(file, { ...reading, samples: flags.samples, sandbox: flags.sandbox });
  printFaults(plan.report, tell);
  const foreign = Object.keys(plan.lanes).filter((name) => name !== lane);
  if (foreign.length > 0) throw new BadUse(`${file}: run cannot serve ${foreign.join(', ')} in this version`);
  await probePolicies({
    settings,
    allowUntrainable: flags.allowUntrainable === true,
    signal: shutdown.graceful,
  });
  await using queueContext = await openQueue(
    settings,
    settings.logLevel === 'info' ? 'warn' : settings.logLevel,
  );
  await (await probeLanes(settings, queueContext.log, shutdown.graceful))[Symbol.asyncDispose]();

  const run_id = flags.runId ?? (await defaultRunId(file, flags.samples, flags.sandbox));
  const { batch } = await produce(queueContext.queue, file, {
    ...reading,
    run_id,
    batch_id: flags.batch,
    samples: flags.samples,
    sandbox: flags.sandbox,
    priority: flags.priority,
    retryFailed: flags.retryFailed === true,
    signal: shutdown.graceful,
  });
  tell(
    `run ${run_id}: ${batch.added} episodes added` +
      (batch.known > 0 ? `, ${batch.known} were there` : '') +
      (batch.retried > 0 ? `, ${batch.retried} again` : ''),
  );
  const out = flags.out ?? join('out', run_id);
  mkdirSync(out, { recursive: true });
  const results = await work({ settings, flags, queueContext, run_id, out, shutdown });

  if (flags.json === true) {
    process.stdout.write(
      `${JSON.stringify({ run_id, out, status: await queueContext.queue.runStatus(run_id) })}\n`,
    );
  } else {
    printResultTable(results, process.stdout);
  }
  tell(`results: ${join(out, 'results.jsonl')}`);
  if (shutdown.graceful.aborted) tell('interrupted: the same command goes on where this one stopped');
  if (
    shutdown.graceful.aborted ||
    results.some(({ status }) => status === 'failed' || status === 'cancelled')
  ) {
    process.exitCode = exitCodes.someFailed;
  }
}

interface Work {
  readonly settings: Settings;
  readonly flags: RunFlags;
  readonly queueContext: QueueContext;
  readonly run_id: string;
  readonly out: string;
  readonly shutdown: Shutdown;
}

/** Runs the workers until the run is done or the user wants to stop; gives every result there is. */
async function work({
  settings,
  flags,
  queueContext,
  run_id,
  out,
  shutdown,
}: Work): Promise<ResultSummary[]> {
  const { queue, options } = queueContext;
  const logFile = join(out, 'workers.log');
  const output = openSync(logFile, 'a');
  const progress = createProgress(process.stderr, flags.json === true);
  const startedAt = performance.now();
  let sampledBefore: number | undefined;
  const show = (status: RunStatus): void => {
    sampledBefore ??= status.sampled_tokens;
    progress.show({
      total: status.episodes.expected,
      done: status.episodes.delivered + status.episodes.missing,
      running: status.episodes.running,
      failed: status.by_status.failed,
      reward_mean: status.reward_mean,
      tokens_per_s:
        (status.sampled_tokens - sampledBefore) / Math.max(0.001, (performance.now() - startedAt) / 1000),
    });
  };
  try {
    const collecting = { queue, options, run_id, path: join(out, 'results.jsonl'), onStatus: show };
    if ((await queue.runStatus(run_id))?.done === true) return await collectResults(collecting);
    await using workers = forkWorkers({
      processes: flags.processes,
      arguments: workerArguments(settings, flags),
      env: { ...process.env, REDIS_URL: options.redisUrl, REDIS_URL_FILE: undefined },
      output,
    });
    const stopped = new AbortController();
    const stop = (): void => stopped.abort();
    shutdown.graceful.addEventListener('abort', stop);
    if (shutdown.graceful.aborted) stop();
    const failed = workers.failed.catch((error: unknown) => {
      throw new BadUse(`${String(error instanceof Error ? error.message : error)}\n${tailOf(logFile)}`, {
        cause: error,
      });
    });
    try {
      return await Promise.race([collectResults({ ...collecting, signal: stopped.signal }), failed]);
    } finally {
      stop();
      shutdown.graceful.removeEventListener('abort', stop);
      await workers.stop();
    }
  } finally {
    progress.stop();
    closeSync(output);
  }
}

function workerArguments(settings: Settings, flags: RunFlags): string[] {
  const { everyLane, byLane } = settings.worker.concurrency;
  const [lane] = settings.worker.lanes ?? [];
  const total = (lane === undefined ? undefined : byLane[lane]) ?? everyLane;
  return [
    'worker',
    ...(lane === undefined ? [] : ['--lanes', lane]),
    ...(flags.sandbox === 'local' ? ['--allow-local'] : []),
    ...(flags.allowUntrainable === true ? ['--allow-untrainable'] : []),
    ...(total === null ? [] : ['--concurrency', String(Math.max(1, Math.ceil(total / flags.processes)))]),
    ...(settings.policy.urls.length === 0 ? [] : ['--policy-url', settings.policy.urls.join(',')]),
    ...(settings.policy.model === null ? [] : ['--model', settings.policy.model]),
    ...(settings.sandbox.image === null ? [] : ['--image', settings.sandbox.image]),
    '--log-level',
    settings.logLevel,
  ];
}

/** The last lines the workers printed, for a message that says why they ended. */
function tailOf(path: string): string {
  return readFileSync(path, 'utf8').trimEnd().split('\n').slice(-5).join('\n');
}
