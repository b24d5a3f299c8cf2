import { resultSummarySchema, type ResultSummary } from '../../src/contracts/index.ts';

/** A completed, graded episode's summary, with the given fields instead. */
export function resultSummary(overrides: Partial<ResultSummary> = {}): ResultSummary {
  return resultSummarySchema.parse({
    schema: 'rollpool.result/1',
    run_id: 'run',
    batch_id: '0',
    episode_id: 'e0',
    attempt: 1,
    task_key: 'task',
    kind: 'claude_code',
    metadata: {},
    group_id: 'g0',
    group_size: 4,
    sample_index: 0,
    status: 'completed',
    stop_reason: 'agent_done',
    reward: 1,
    rewards: { tests: 1 },
    metrics: { turns: 3 },
    failure: null,
    policy: {
      model: 'policy',
      version_start: 3,
      version_end: 3,
      version_source: 'pushed',
      logprobs_mode: 'processed',
    },
    sampling: {},
    usage: { calls: 3, prompt_tokens: 300, completion_tokens: 60, discarded_tokens: 0 },
    timing: {
      queued_s: 0,
      boot_s: 1,
      setup_s: 0,
      agent_s: 5,
      model_s: 3,
      hold_s: 0,
      grade_s: 1,
      total_s: 7,
    },
    verify: [],
    grades: { exact: 1, forked: 0, untrainable: 0 },
    worker: 'worker-1',
    sandbox: null,
    ...overrides,
  });
}
