import { canonicalJson } from '../contracts/index.ts';
import { RunConflictError, type OpenedRun, type OpenRunOptions } from './api.ts';
import { firstDifference, valueAt } from './first-difference.ts';
import { openRunRecord } from './lua/open-run.ts';
import { checkName } from './names.ts';
import type { RepairParts } from './repair.ts';
import { parseSettings, runSettingsSchema } from './run-settings.ts';

/** Creates a run or resumes it; the same run with other settings is refused. */
export async function openRun(
  parts: Pick<RepairParts, 'redis' | 'names'>,
  options: OpenRunOptions,
): Promise<OpenedRun> {
  const { run_id } = options;
  checkName('run_id', run_id);
  const given = parseSettings(runSettingsSchema, options.settings, 'settings');
  const settings = canonicalJson(given);
  const reply = await openRunRecord(parts.redis, parts.names, {
    run_id,
    settings,
    now: Date.now(),
    reopen: options.reopen ?? false,
  });
  if (reply.created) return { run_id, created: true };
  const existing: unknown = JSON.parse(reply.settings);
  refuseDifference('run_settings_differ', `run ${run_id}`, existing, given);
  if ((reply.closed || reply.ended) && options.reopen !== true) throw runOver(run_id, reply.ended);
  return { run_id, created: false };
}

/** The error of a run that takes no more batches. */
export function runOver(run_id: string, cancelled: boolean): RunConflictError {
  return new RunConflictError(
    'run_closed',
    'run_id',
    `run ${run_id} ${cancelled ? 'was cancelled' : 'is closed'}: open it again or take another run id`,
  );
}

/** Throws a RunConflictError that names the first field in which two settings differ. */
export function refuseDifference(
  code: 'run_settings_differ' | 'samples_differ',
  what: string,
  existing: unknown,
  given: unknown,
): void {
  const field = firstDifference(existing, given);
  if (field === null) return;
  if (field === 'manifest_hash') {
    throw new RunConflictError(
      code,
      field,
      `${what} was made from another tasks file (manifest_hash differs): take another id`,
    );
  }
  const show = (value: unknown): string => JSON.stringify(valueAt(value, field)) ?? 'nothing';
  throw new RunConflictError(
    code,
    field,
    `${what} has ${field} = ${show(existing)}, but ${show(given)} was given: take another id`,
  );
}
