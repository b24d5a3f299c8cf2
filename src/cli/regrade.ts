import { join } from 'node:path';
import { Command } from 'commander';
import { sandboxProviderOf } from '../../workers/lanes.ts';
import { regradeLanes, startRegradeWorker } from '../../workers/regrade-worker.ts';
import { makeRuntimeDirectory } from '../../workers/runtime-directory.ts';
import type { Settings } from '../config/index.ts';
import type { ResultSummary } from '../contracts/index.ts';
import type { Logger } from '../observe/index.ts';
import { createConsumer } from '../queue/consumer/index.ts';
import type { SandboxProvider } from '../sandbox/sandbox.ts';
import { BadUse, exitCodes } from './bad-use.ts';
import { collectResults } from './collect-results.ts';
import { openQueue, type QueueContext } from './context.ts';
import { runName, settingsOf, withSettings } from './options.ts';
import { planRegrade, type KeepingProvider, type RegradePlan } from './regrade-plan.ts';
import { prepareOut } from './result-file.ts';
import { printFailures, printResultTable } from './result-table.ts';
import { listenForShutdown, type Shutdown } from './shutdown.ts';
import { defaultRunId, printFaults } from './tasks-file.ts';

interface RegradeFlags extends Record<string, unknown> {
  readonly newRunId?: string;
  readonly out?: string;
  readonly json?: boolean;
  readonly dryRun?: boolean;
}

export function regradeCommand(): Command {
  return withSettings(new Command('regrade'), 'concurrency', 'logLevel')
    .description(
      'run the verifiers of a tasks file on the final sandboxes that a run kept (ROLLPOOL_KEEP_SANDBOXES), without a model',
    )
    .argument('<run>', 'the run whose sandboxes were kept')
    .argument('<tasks>', 'the tasks with their verifiers as they are now')
    .option(
      '--new-run-id <id>',
      'name of the run of new results (default: from the run and the file)',
      runName,
    )
    .option('--out <dir>', 'directory of results.jsonl (default: out/<new run id>)')
    .option('--dry-run', 'only say what could be graded again')
    .option('--json', 'one JSON object instead of text')
    .action(regrade);
}

const tell = (line: string): void => void process.stderr.write(`${line}\n`);

interface Keeping extends AsyncDisposable {
  readonly providers: ReadonlyMap<KeepingProvider, SandboxProvider>;
  readonly kept: ReadonlyMap<KeepingProvider, ReadonlySet<string>>;
  /** Why others were not looked at. */
  readonly skipped: readonly string[];
}

/** The providers that answer here, and the states they keep for this pool. */
async function openKeeping(settings: Settings, log: Logger): Promise<Keeping> {
  const providers = new Map<KeepingProvider, SandboxProvider>();
  const kept = new Map<KeepingProvider, ReadonlySet<string>>();
  const skipped: string[] = [];
  // What sandboxes have on this machine lies where a sweep finds it when this process is killed.
  const runtime = await makeRuntimeDirectory('regrade', settings.redis.prefix);
  const closeAll = async (): Promise<void> => {
    for (const provider of providers.values()) await provider[Symbol.asyncDispose]();
    await runtime[Symbol.asyncDispose]();
  };
  for (const name of Object.keys(regradeLanes) as KeepingProvider[]) {
    if (name === 'e2b' && settings.e2b.apiKey === null) continue;
    const provider = sandboxProviderOf(settings, name, log, runtime.path);
    try {
      await provider.probe();
      const states = (await provider.listSnapshots?.(settings.redis.prefix)) ?? [];
      kept.set(name, new Set(states.map((state) => state.name)));
      providers.set(name, provider);
    } catch (error) {
      skipped.push(`${name} was not looked at: ${error instanceof Error ? error.message : String(error)}`);
      await provider[Symbol.asyncDispose]();
    }
  }
  return { providers, kept, skipped, [Symbol.asyncDispose]: closeAll };
}

/** What cannot be graded again, in one line; empty when everything can. */
function leftOut(plan: RegradePlan): string {
  const parts = [
    [plan.never_kept, 'never kept'],
    [plan.gone, 'not kept any more, or on another machine'],
    [plan.without_task, 'whose task is not in the file'],
  ] as const;
  return parts
    .filter(([count]) => count > 0)
    .map(([count, why]) => `${count} ${why}`)
    .join(', ');
}

async function regrade(run_id: string, file: string, flags: RegradeFlags): Promise<void> {
  using shutdown = listenForShutdown();
  shutdown.forced.addEventListener('abort', () => process.exit(exitCodes.someFailed));
  const settings = settingsOf(flags);
  const new_run_id =
    flags.newRunId ?? `${run_id.slice(0, 60)}-regrade-${await defaultRunId(file)}`.slice(0, 128);
  await using context = await openQueue(settings, 'error');
  if ((await context.queue.runStatus(run_id)) === null) throw new BadUse(`there is no run ${run_id}`);
  await using keeping = await openKeeping(settings, context.log);
  for (const reason of keeping.skipped) tell(reason);
  const plan = await (async () => {
    await using consumer = await createConsumer(context.options);
    return await planRegrade({ consumer, run_id, new_run_id, file, kept: keeping.kept });
  })();
  printFaults(plan.report, process.stderr);
  const left = leftOut(plan);
  if (left !== '') tell(`left out: ${left}`);
  if (flags.dryRun === true) {
    const { never_kept, gone, without_task } = plan;
    const episodes = plan.orders.size;
    process.stdout.write(
      flags.json === true
        ? `${JSON.stringify({ run_id, episodes, never_kept, gone, without_task })}\n`
        : `${episodes} episodes of ${run_id} can be graded again\n`,
    );
    return;
  }
  if (plan.orders.size === 0) throw new BadUse(`nothing of run ${run_id} can be graded again`);
  const out = flags.out ?? join('out', new_run_id);
  const path = await prepareOut(out);
  await addRegrades(context, plan, { run_id, new_run_id });
  tell(`run ${new_run_id}: ${plan.orders.size} episodes of ${run_id} are graded again`);
  const results = await gradeAll(settings, context, keeping, { run_id: new_run_id, path, shutdown });
  if (flags.json === true) {
    const status = await context.queue.runStatus(new_run_id);
    process.stdout.write(`${JSON.stringify({ run_id: new_run_id, out, status })}\n`);
  } else {
    printResultTable(results, process.stdout);
    process.stdout.write(`${changes(results)}\n`);
  }
  printFailures(results, process.stderr);
  tell(`results: ${path}`);
  if (shutdown.graceful.aborted) tell('interrupted: the same command goes on where this one stopped');
  if (
    shutdown.graceful.aborted ||
    results.some(({ status }) => status === 'failed' || status === 'cancelled')
  ) {
    process.exitCode = exitCodes.someFailed;
  }
}

async function addRegrades(
  { queue }: QueueContext,
  plan: RegradePlan,
  runs: { readonly run_id: string; readonly new_run_id: string },
): Promise<void> {
  const run_id = runs.new_run_id;
  await queue.openRun({
    run_id,
    settings: {
      samples: 1,
      sampling: {},
      limits: {},
      manifest_hash: null,
      extra: { regrade_of: runs.run_id },
    },
  });
  await queue.orderRegrades(run_id, plan.orders);
  for (const { batch_id, samples, tasks, provider } of plan.batches) {
    await queue.addBatch({ run_id, batch_id, samples, tasks, laneOf: () => regradeLanes[provider] });
  }
}

async function gradeAll(
  settings: Settings,
  context: QueueContext,
  keeping: Keeping,
  run: { readonly run_id: string; readonly path: string; readonly shutdown: Shutdown },
): Promise<ResultSummary[]> {
  const worker = await startRegradeWorker({
    settings,
    queue: context.options,
    orders: context.queue,
    providers: keeping.providers,
    onlyRun: run.run_id,
    log: context.log,
  });
  try {
    return await collectResults({
      queue: context.queue,
      options: context.options,
      run_id: run.run_id,
      path: run.path,
      signal: run.shutdown.graceful,
    });
  } finally {
    await worker.close();
  }
}

/** How many rewards are other than they were. */
function changes(results: readonly ResultSummary[]): string {
  const changed = results.filter(({ reward, regrade_of }) => reward !== (regrade_of?.reward ?? null));
  return `${changed.length} of ${results.length} rewards are other than they were`;
}
