import type { FaultInput } from '../../../src/local-fleet/index.ts';
import { parseScripts, type Script } from '../../../src/policy/index.ts';
import type { RunningCommand } from '../command.ts';
import type { Stage } from '../stage.ts';
import { messageTask } from './stage.ts';

/** Stands in every call of an episode in the bike workshop, and in no other. */
export const workshopMark = '"send_message"';

const look = { name: 'get_customer', arguments: { customer_id: 101 } };
const tell = { name: 'send_message', arguments: { customer_id: 101, body: 'Your bike is ready.' } };

/** Three turns that solve every task of `messageTasks`. */
export const messageScript = {
  match: 'Tell customer 101',
  turns: [{ tool_calls: [look] }, { text: 'I tell them.', tool_calls: [tell] }, { text: 'They know.' }],
};

export function messageScripts(): readonly Script[] {
  return parseScripts({ schema: 'rollpool.scripts/1', scripts: [messageScript] });
}

/** Fleet tasks as a tasks file has them. */
export function messageTasks(...keys: readonly string[]): unknown[] {
  return keys.map((task_key) => messageTask({ task_key }));
}

export interface ServedInstance {
  readonly instance_id: string;
  readonly run_id: string | null;
}

/** `rollpool local-fleet` as a process of its own. */
export interface FleetCommand extends RunningCommand {
  readonly url: string;
  /** What a worker needs to reach it. */
  readonly env: Readonly<Record<string, string>>;
  instances(): Promise<readonly ServedInstance[]>;
  /** Those that a worker made. */
  instancesOf(worker: string): Promise<readonly ServedInstance[]>;
  fault(fault: FaultInput): Promise<void>;
  clearFaults(): Promise<void>;
}

export async function startFleet(
  stage: Stage,
  apiKey: string,
  args: readonly string[] = [],
): Promise<FleetCommand> {
  const command = stage.start(['local-fleet', '--json', ...args], { FLEET_API_KEY: apiKey });
  const [line] = await command.says(/^\{.*\}$/m, 'the local Fleet listens');
  const { url } = JSON.parse(line) as { url: string };
  const ask = async (path: string, init: RequestInit = {}): Promise<Response> => {
    const answer = await fetch(`${url}${path}`, { ...init, headers: { authorization: `Bearer ${apiKey}` } });
    if (!answer.ok) throw new Error(`${path}: HTTP ${answer.status} ${await answer.text()}`);
    return answer;
  };
  const instances: FleetCommand['instances'] = async () =>
    (await (await ask('/v1/env/instances?status=running')).json()) as ServedInstance[];
  return {
    ...command,
    url,
    env: { FLEET_BASE_URL: url, FLEET_API_KEY: apiKey },
    instances,
    instancesOf: async (worker) =>
      (await instances()).filter(({ run_id }) => run_id?.includes(`:${worker}:`)),
    fault: async (fault) => {
      await ask('/__faults', { method: 'POST', body: JSON.stringify(fault) });
    },
    clearFaults: async () => {
      await ask('/__faults', { method: 'DELETE' });
    },
  };
}
