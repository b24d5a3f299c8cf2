import { availableParallelism } from 'node:os';
import { Command, Option } from 'commander';
import { join } from 'node:path';
import { probeLanes } from '../../workers/lanes.ts';
import { downLine, probePolicies } from '../../workers/probe-policies.ts';
import type { Lane } from '../contracts/index.ts';
import { addTasks, describeAdded, planTasks, runIdOf, withTaskFlags, type TaskFlags } from './add-tasks.ts';
import { createLogger } from '../observe/index.ts';
import { exitCodes } from './bad-use.ts';
import { openQueue } from './context.ts';
import { settingsOf, wholeNumber, withSettings } from './options.ts';
import { openRunFleet } from './run-fleet.ts';
import { prepareOut } from './result-file.ts';
import { printFailures, printResultTable } from './result-table.ts';
import { runWorkers } from './run-workers.ts';
import { listenForShutdown } from './shutdown.ts';

interface RunFlags extends TaskFlags {
  readonly sandbox: 'docker' | 'e2b' | 'local';
  readonly processes: number;
  readonly out?: string;
  readonly environments?: string;
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
    .argument('<tasks>', 'JSON array, {"tasks": [...]} or JSON lines; or a Harbor task or a folder of them')
    .addOption(
      new Option('--sandbox <provider>', 'where Claude Code tasks run; local does not isolate')
        .choices(['docker', 'e2b', 'local'])
        .default('docker'),
    )
    .option(
      '--processes <n>',
      'worker processes; --concurrency is shared among them',
      wholeNumber(1),
      Math.min(2, availableParallelism()),
    )
    .option('--out <dir>', 'directory of results.jsonl and workers.log (default: out/<run id>)')
    .option('--environments <dir>', 'folder of environments for the local Fleet (docs/local-fleet.md)')
    .option('--allow-untrainable', 'run a policy that returns no ids or logprobs')
    .action(run);
}

const tell = (line: string): void => void process.stderr.write(`${line}\n`);

async function run(file: string, flags: RunFlags): Promise<void> {
  using shutdown = listenForShutdown();
  const allowUntrainable = flags.allowUntrainable === true;

  // Everything that can be wrong is looked at before anything is written.
  const plan = await planTasks(file, flags);
  const lanes = Object.keys(plan.lanes) as Lane[];
  const asked = settingsOf(flags, {
    ROLLPOOL_LANES: lanes.join(','),
    ...(flags.sandbox === 'local' ? { ROLLPOOL_ALLOW_LOCAL: 'true' } : {}),
  });
  await using fleet = await openRunFleet({
    settings: asked,
    wanted: plan.environments,
    environments: flags.environments ?? null,
    log: createLogger({ level: 'error' }),
  });
  const { settings } = fleet;
  const down = downLine(await probePolicies({ settings, allowUntrainable, signal: shutdown.graceful }));
  if (down !== null) tell(down);
  // Whether a worker serves the lane is no question here: the workers come after the episodes.
  await using context = await openQueue(settings, 'error');
  await (await probeLanes({ settings, log: context.log, signal: shutdown.graceful }))[Symbol.asyncDispose]();
  shutdown.graceful.throwIfAborted();
  const runId = await runIdOf(file, flags);
  const out = flags.out ?? join('out', runId);
  const path = await prepareOut(out);

  const added = await addTasks(context.queue, file, { ...flags, runId }, shutdown.graceful);
  const { run_id } = added;
  tell(describeAdded(added));
  if (fleet.local !== null) tell(`local Fleet: ${fleet.local}`);
  const results = await runWorkers({
    settings,
    context,
    run_id,
    out,
    path,
    lanes,
    env: fleet.env,
    processes: flags.processes,
    allowUntrainable,
    quiet: flags.json === true,
    shutdown,
  });

  if (flags.json === true) {
    const status = await context.queue.runStatus(run_id);
    process.stdout.write(`${JSON.stringify({ run_id, out, status })}\n`);
  } else {
    printResultTable(results, process.stdout);
  }
  printFailures(results, process.stderr);
  tell(`results: ${path}`);
  if (shutdown.graceful.aborted) tell('interrupted: the same command goes on where this one stopped');
  const unfinished = results.some(({ status }) => status === 'failed' || status === 'cancelled');
  if (shutdown.graceful.aborted || unfinished) process.exitCode = exitCodes.someFailed;
}
