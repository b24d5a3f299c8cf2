import { Command } from 'commander';
import Table from 'cli-table3';
import { createControl, type PolicyRecord } from '../queue/control/index.ts';
import type { RunStatus } from '../queue/index.ts';
import { BadUse } from './bad-use.ts';
import { openQueue } from './context.ts';
import { settingsOf } from './options.ts';
import { printable } from './printable.ts';

function runRow(run: RunStatus): (string | number)[] {
  const { episodes } = run;
  return [
    run.run_id,
    run.cancelled ? 'cancelled' : run.done ? 'done' : run.state,
    `${episodes.delivered + episodes.missing}/${episodes.expected}`,
    episodes.queued,
    episodes.running,
    run.by_status.failed,
    run.retries,
    run.reward_mean === null ? '-' : run.reward_mean.toFixed(3),
    run.sampled_tokens,
  ];
}

/** What a trainer last said of the policy; null when none ever did. */
function policyLine(policy: PolicyRecord): string | null {
  if (policy.revision === 0) return null;
  const own = Object.entries(policy.replicas).map(([replica, version]) => `${replica} ${version}`);
  const version = `policy version ${policy.version ?? 'unknown'}${own.length > 0 ? ` (${own.join(', ')})` : ''}`;
  return `${printable(version)}${policy.paused ? ', paused: model calls wait' : ''}\n`;
}

export function statusCommand(): Command {
  return new Command('status')
    .description('show runs, lanes and workers')
    .argument('[run]', 'only this run')
    .option('--json', 'one JSON object')
    .action(async (runId: string | undefined, flags: { json?: boolean }) => {
      await using context = await openQueue(settingsOf(flags), 'warn');
      const { queue } = context;
      let runs: RunStatus[];
      if (runId === undefined) {
        runs = await queue.listRuns();
      } else {
        const run = await queue.runStatus(runId);
        if (run === null) throw new BadUse(`there is no run ${runId}`);
        runs = [run];
      }
      const [lanes, workers, policy] = await Promise.all([
        queue.laneCounts(),
        queue.listWorkers(),
        createControl(queue).policy(),
      ]);
      if (flags.json === true) {
        process.stdout.write(`${JSON.stringify({ runs, lanes, workers, policy })}\n`);
        return;
      }
      const table = (head: string[], rows: (string | number)[][]): void => {
        const drawn = new Table({ head, style: { head: [], border: [] } });
        drawn.push(...rows);
        process.stdout.write(`${drawn.toString()}\n`);
      };
      if (runs.length === 0) process.stdout.write('no runs yet\n');
      else {
        table(
          ['run', 'state', 'episodes', 'queued', 'running', 'failed', 'retries', 'reward', 'tokens'],
          runs.map(runRow),
        );
      }
      table(
        ['lane', 'waiting', 'active', 'delayed'],
        lanes.map((lane) => [lane.lane, lane.waiting, lane.active, lane.delayed]),
      );
      process.stdout.write(policyLine(policy) ?? '');
      if (workers.length === 0) process.stdout.write('no workers\n');
      else {
        table(
          ['worker', 'host', 'pid', 'running', 'lanes', 'seen'],
          workers.map((worker) => [
            worker.worker,
            worker.host,
            worker.pid,
            worker.running,
            Object.entries(worker.lanes)
              .map(([lane, concurrency]) => `${lane}=${concurrency}`)
              .join(' '),
            `${Math.max(0, Math.round((Date.now() - worker.seen_at) / 1000))} s ago`,
          ]),
        );
      }
    });
}
