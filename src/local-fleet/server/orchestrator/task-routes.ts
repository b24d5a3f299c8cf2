import { createHash } from 'node:crypto';
import type { FleetTask } from '../../../contracts/index.ts';
import { Refusal } from '../http/refusal.ts';
import type { Handler } from '../http/router.ts';
import { account } from '../instances/instance-answer.ts';

const sha256 = (text: string): string => createHash('sha256').update(text).digest('hex');

interface Verifier {
  readonly verifier_id: string;
  readonly key: string;
  readonly version: number;
  readonly sha256: string;
  readonly code: string;
  readonly comment: null;
  readonly created_at: string;
}

function verifierOf(task: FleetTask, created_at: string): Verifier | null {
  const { verifier_code: code } = task;
  if (code === null) return null;
  const verifier_id = task.verifier_id ?? task.task_key;
  return {
    verifier_id,
    key: task.task_key,
    version: 1,
    sha256: sha256(code),
    code,
    comment: null,
    created_at,
  };
}

function taskAnswer(task: FleetTask, created_at: string): Readonly<Record<string, unknown>> {
  const { verifier_runtime_version } = task;
  return {
    key: task.task_key,
    prompt: task.prompt,
    team_id: account.team_id,
    environment_id: task.env_key,
    created_at,
    verifier_id: task.verifier_id,
    verifier: verifierOf(task, created_at),
    verifier_func: task.verifier_code,
    version: task.env_version,
    data_id: task.data_key,
    data_version: task.data_version,
    env_variables: task.env_variables,
    metadata: {
      ...task.metadata,
      ...(verifier_runtime_version === null ? {} : { verifier_runtime_version }),
    },
    output_json_schema: null,
  };
}

/** Tasks that the server tells of, and their verifiers by id. */
export function taskRoutes(tasks: readonly FleetTask[]): Readonly<Record<string, Handler>> {
  const created = new Date().toISOString();
  const byKey = new Map(tasks.map((task) => [task.task_key, task]));
  const verifiers = new Map(
    tasks
      .map((task) => verifierOf(task, created))
      .filter((verifier) => verifier !== null)
      .map((verifier) => [verifier.verifier_id, verifier]),
  );

  return {
    'GET /v1/tasks': ({ query }) => {
      const keys = new Set(query.getAll('task_keys'));
      const [env, data, version] = ['env_key', 'data_id', 'data_version'].map((name) => query.get(name));
      const found = tasks.filter(
        (task) =>
          (keys.size === 0 || keys.has(task.task_key)) &&
          (!env || task.env_key === env) &&
          (!data || task.data_key === data) &&
          (!version || task.data_version === version),
      );
      return { tasks: found.map((task) => taskAnswer(task, created)), total: found.length };
    },
    'GET /v1/tasks/:key': (_exchange, { key = '' }) => {
      const task = byKey.get(key);
      if (task === undefined) throw new Refusal(404, `Task '${key}' not found`);
      return taskAnswer(task, created);
    },
    'GET /v1/verifiers/:id': (_exchange, { id = '' }) => {
      const verifier = verifiers.get(id);
      if (verifier === undefined) throw new Refusal(404, `Verifier '${id}' not found`);
      return verifier;
    },
  };
}
