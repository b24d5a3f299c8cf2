import type { EndReason, RolloutQueue } from '../api.ts';
import { changePolicy } from '../lua/set-policy.ts';
import type { ControlMessage } from './control-message.ts';
import { parsePolicyRecord, type PolicyRecord } from './policy-record.ts';
import { policyReplicaName } from './policy-replica.ts';

/** A change of the policy's state; what is absent stays. */
export interface PolicyChange {
  /** Version of the weights, a whole number from 0. */
  readonly version?: number;
  /** True holds new model calls, false lets them go on. */
  readonly paused?: boolean;
  /**
   * With a pause: what becomes of calls in flight. `drain`: they go on, as long as the engine lets them, and their clocks stand
   * still. `abort`: the gateways end them and sample them anew when the policy goes on. Default: drain.
   */
  readonly in_flight?: 'drain' | 'abort';
  /** The replica (its base URL, with or without `/v1`) that `version` is of. Default: all of them. */
  readonly replica?: string;
}

/**
 * Steers what the workers do, from any process. A trainer's order: `setPolicy({paused: true})`, update the weights,
 * `setPolicy({version})`, `setPolicy({paused: false})`. Calls fail within seconds when Redis is away.
 */
export interface Control {
  /** Queued episodes get a null result, running ones are ended. Each returns whether there was something to end. */
  cancelRun(run_id: string, reason?: EndReason): Promise<boolean>;
  cancelGroup(group_id: string, reason?: EndReason): Promise<boolean>;
  cancelEpisode(episode_id: string, reason?: EndReason): Promise<boolean>;
  /** Running episodes go on, queued ones wait. */
  pauseRun(run_id: string): Promise<boolean>;
  resumeRun(run_id: string): Promise<boolean>;
  /** Gives the state after the change. */
  setPolicy(change: PolicyChange): Promise<PolicyRecord>;
  policy(): Promise<PolicyRecord>;
}

type Steered = Pick<
  RolloutQueue,
  'names' | 'redis' | 'cancelRun' | 'cancelGroup' | 'cancelEpisode' | 'pauseRun' | 'resumeRun'
>;

/** Control over the pool of `queue`. It owns nothing. */
export function createControl(queue: Steered): Control {
  const { redis, names } = queue;
  // The flag first, then the message: who misses the message finds the flag.
  const end = async (
    target: 'run' | 'group' | 'episode',
    id: string,
    reason: EndReason,
    flagged: Promise<boolean>,
  ): Promise<boolean> => {
    if (!(await flagged)) return false;
    const message: ControlMessage = { type: 'end', target, id, reason };
    await redis.publish(names.controlChannel, JSON.stringify(message));
    return true;
  };
  return {
    cancelRun: (id, reason = 'cancelled') => end('run', id, reason, queue.cancelRun(id, reason)),
    cancelGroup: (id, reason = 'cancelled') => end('group', id, reason, queue.cancelGroup(id, reason)),
    cancelEpisode: (id, reason = 'cancelled') => end('episode', id, reason, queue.cancelEpisode(id, reason)),
    pauseRun: (id) => queue.pauseRun(id),
    resumeRun: (id) => queue.resumeRun(id),
    setPolicy: async (change) => {
      const { version } = change;
      if (version !== undefined && (!Number.isSafeInteger(version) || version < 0)) {
        throw new Error(`version must be a whole number from 0, got ${version}`);
      }
      if (change.replica !== undefined && (change.replica === '' || version === undefined)) {
        throw new Error('replica must name one, and needs a version with it');
      }
      if (change.in_flight !== undefined && change.paused !== true) {
        throw new Error('in_flight says what a pause does: it needs paused: true with it');
      }
      const { replica } = change;
      const named = replica === undefined ? change : { ...change, replica: policyReplicaName(replica) };
      return parsePolicyRecord(await changePolicy(redis, names, named, Date.now()));
    },
    policy: async () => parsePolicyRecord(await redis.get(names.policy)),
  };
}
