import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { normaliseTask } from '../../../producer/index.ts';
import type { FleetTask } from '../../../src/contracts/index.ts';
import { shippedEnvironments } from '../../../src/local-fleet/environment/index.ts';
import type {
  EnvironmentDatabase,
  LocalToolOutcome,
} from '../../../src/local-fleet/environment/environment.ts';
import type { VerifierOutcome } from '../../../src/local-fleet/verifier/verifier.ts';
import { score } from './score.ts';

const file = new URL('../../../examples/bike-workshop.json', import.meta.url);
const { tasks: exported } = JSON.parse(await readFile(file, 'utf8')) as { tasks: unknown[] };

export const tasks: readonly FleetTask[] = exported.map((task) => {
  const read = normaliseTask(task);
  if (!('task' in read) || read.task.kind !== 'fleet')
    throw new Error(`no fleet task: ${JSON.stringify(read)}`);
  return read.task;
});

export function taskOf(key: string): FleetTask {
  const found = tasks.find(({ task_key }) => task_key === key);
  if (found === undefined) throw new Error(`no task ${key}`);
  return found;
}

const [workshop] = await shippedEnvironments();
if (workshop === undefined) throw new Error('no environment is shipped');
export { workshop };

/** A call of a tool, by name and arguments. */
export type Call = readonly [name: string, args: Record<string, unknown>];

export interface Attempt extends AsyncDisposable {
  readonly database: EnvironmentDatabase;
  call(name: string, args?: Record<string, unknown>): LocalToolOutcome;
  /** Calls that must work, in order. */
  calls(calls: readonly Call[]): void;
  verify(finalAnswer?: string | null): Promise<VerifierOutcome>;
}

/** An instance made for a task, and its verifier. */
export async function attempt(task: FleetTask): Promise<Attempt> {
  const directory = await mkdtemp(join(tmpdir(), `rp-workshop-${process.pid}-`));
  const database = await workshop!.open({
    directory,
    data_key: task.data_key ?? workshop!.default_data_key,
    variables: task.env_variables,
  });
  const call = (name: string, args: Record<string, unknown> = {}): LocalToolOutcome =>
    database.callTool(name, args);
  return {
    database,
    call,
    calls(calls) {
      for (const [name, args] of calls) {
        const outcome = call(name, args);
        if ('error' in outcome) throw new Error(`${name}: ${outcome.error}`);
      }
    },
    verify: (finalAnswer = null) => score(task, database, finalAnswer),
    async [Symbol.asyncDispose]() {
      await database[Symbol.asyncDispose]();
      await rm(directory, { recursive: true, force: true });
    },
  };
}
