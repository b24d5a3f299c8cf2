import type { FaultSwitch } from '../faults/fault-switch.ts';
import type { Exchange } from '../http/exchange.ts';
import { Refusal } from '../http/refusal.ts';
import type { Handler } from '../http/router.ts';
import { account, instanceAnswer } from '../instances/instance-answer.ts';
import type { Instance } from '../instances/instance.ts';
import type { Instances } from '../instances/instances.ts';
import type { InstanceCreation } from './instance-creation.ts';
import { runsOf } from './runs.ts';

/** `profile_id=self` is whoever asks, and there is only one. */
const isOurs = (profile: string): boolean => profile === 'self' || profile === account.profile_id;

function filter(instances: readonly Instance[], { query }: Exchange): readonly Instance[] {
  const [status, region, run, profile] = ['status', 'region', 'run_id', 'profile_id'].map((name) =>
    query.get(name),
  );
  return instances.filter(
    (instance) =>
      (!status || instance.status === status) &&
      (!region || instance.plan.region === region) &&
      (!run || instance.plan.run_id === run) &&
      (!profile || isOurs(profile)),
  );
}

/** What can be done with instances on the orchestrator. */
export function instanceRoutes(
  instances: Instances,
  creation: InstanceCreation,
  faults: FaultSwitch,
): Readonly<Record<string, Handler>> {
  const find = (id: string | undefined): Instance => {
    const instance = instances.find(id ?? '');
    if (instance === undefined) throw new Refusal(404, `Instance '${id}' not found`);
    return instance;
  };
  const answers = (found: readonly Instance[], exchange: Exchange): unknown =>
    found.map((instance) => instanceAnswer(instance, exchange.origin));

  return {
    'POST /v1/env/instances': (exchange) => creation.handle(exchange),

    // Without a status the live ones: nobody wants all that ever were.
    'GET /v1/env/instances': (exchange) =>
      answers(filter(exchange.query.get('status') ? instances.all() : instances.live(), exchange), exchange),

    'DELETE /v1/env/instances/batch': async (exchange) => {
      if (!exchange.query.get('run_id') && !exchange.query.get('profile_id')) {
        throw new Refusal(400, 'At least one of run_id or profile_id must be provided');
      }
      const found = filter(instances.live(), exchange);
      await Promise.all(found.map((instance) => instances.end(instance, 'stopped', 'its run was deleted')));
      return answers(found, exchange);
    },

    'GET /v1/env/instances/:id': (exchange, { id }) => instanceAnswer(find(id), exchange.origin),

    'DELETE /v1/env/instances/:id': async (exchange, { id }) => {
      const instance = find(id);
      const occasion = { instance: instance.id, run_id: instance.plan.run_id };
      if (faults.take('delete_error', occasion) !== undefined)
        throw new Refusal(500, 'Internal Server Error');
      if (faults.take('delete_missing', occasion) !== undefined) {
        await instances.end(instance, 'error', 'a fault ended it');
      }
      if (!instance.live) throw new Refusal(404, `Instance '${id}' not found or already terminated`);
      await instances.end(instance, 'stopped', 'it was deleted');
      return instanceAnswer(instance, exchange.origin);
    },

    'POST /v1/env/instances/:id/heartbeat': (_exchange, { id }) => {
      const instance = find(id);
      if (!instance.live) throw new Refusal(404, `Instance '${id}' not found or already terminated`);
      const due = instances.beat(instance);
      return {
        success: true,
        instance_id: instance.id,
        last_heartbeat: due === null ? null : (instance.heartbeat?.toISOString() ?? null),
        deadline_timestamp: due === null ? null : due / 1_000,
        interval_seconds: instance.plan.heartbeat_interval,
      };
    },

    'GET /v1/env/runs': ({ query }) => runsOf(instances.all(), query.get('active') ?? 'all'),
  };
}
