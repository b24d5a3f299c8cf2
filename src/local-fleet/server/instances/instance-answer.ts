import type { Instance } from './instance.ts';

/** Who the holder of the server's key is. */
export const account = {
  team_id: 'local-team',
  team_name: 'Local Fleet',
  profile_id: 'local-profile',
  profile_name: 'local',
} as const;

/** An instance as the orchestrator describes it. `origin` is `http://host:port` as the client knows us. */
export function instanceAnswer(instance: Instance, origin: string): Readonly<Record<string, unknown>> {
  const { plan } = instance;
  const root = `${origin}/i/${instance.id}/`;
  const manager = `${root}api/v1/env`;
  return {
    instance_id: instance.id,
    env_key: plan.environment.env_key,
    version: plan.environment.version,
    status: instance.status,
    subdomain: instance.id,
    created_at: instance.created.toISOString(),
    updated_at: instance.updated.toISOString(),
    terminated_at: instance.terminated?.toISOString() ?? null,
    team_id: account.team_id,
    region: plan.region,
    env_variables: plan.variables,
    data_key: plan.data_key,
    data_version: plan.data_version,
    health: instance.status === 'running',
    run_id: plan.run_id,
    profile_id: account.profile_id,
    heartbeat_interval: plan.heartbeat_interval,
    heartbeat_region: plan.heartbeat_interval === null ? null : plan.region,
    urls: {
      root,
      app: [root],
      api: null,
      health: `${manager}/health`,
      api_docs: null,
      manager: {
        api: manager,
        docs: `${manager}/docs`,
        reset: `${manager}/reset`,
        diff: `${manager}/diff/structured`,
        snapshot: `${manager}/snapshot`,
        execute_verifier_function: `${manager}/execute_verifier_function`,
        execute_verifier_function_with_upload: `${manager}/execute_verifier_function_with_upload`,
      },
    },
  };
}
