import { EpisodeError, type EffectiveLimits, type Owner } from '../contracts/index.ts';
import type { Logger } from '../observe/index.ts';
import type { EpisodeAttempt } from '../queue/processor.ts';
import type { Sandbox, SandboxProvider } from '../sandbox/sandbox.ts';
import { tearDown } from './attempt-end.ts';
import { bootWithin, ownerOf, setUp, ttlMarginSeconds } from './boot.ts';

export interface FreshOptions {
  readonly provider: SandboxProvider;
  readonly limits: EffectiveLimits;
  readonly pool: string;
  /** Waits for a place among the sandboxes that boot at once on this machine. */
  readonly queued: (boot: () => Promise<Sandbox>) => Promise<Sandbox>;
  readonly log: Logger;
}

/** Sandboxes that an attempt is graded in beside its own. Disposing it ends those that are left. */
export interface FreshSandboxes extends AsyncDisposable {
  /** Boots one with its own deadline, and puts the task's files and set-up in place. */
  make(): Promise<Sandbox>;
}

/**
 * Makes sandboxes like the one of an attempt, without a gateway and without an agent CLI. Their labels name the same
 * episode, so that whoever sweeps knows whose they are; their nonces are their own.
 */
export function freshSandboxes(attempt: EpisodeAttempt, options: FreshOptions): FreshSandboxes {
  const { provider, limits, pool, queued, log } = options;
  const { task, signal } = attempt;
  const made: Sandbox[] = [];
  let count = 0;
  const owner = (): Owner => {
    const own = ownerOf(attempt, pool);
    count += 1;
    return { ...own, nonce: `${own.nonce}-g${count}` };
  };
  const ttl_seconds =
    limits.boot_seconds +
    limits.setup_seconds +
    limits.grade_total_seconds +
    limits.publish_seconds +
    ttlMarginSeconds;
  return {
    make: async () => {
      if (task.kind !== 'claude_code') throw new Error(`a ${task.kind} task has no sandboxes`);
      const request = {
        spec: task.sandbox,
        owner: owner(),
        gateway_dir: null,
        cli_binary: null,
        ttl_seconds,
        boot_seconds: limits.boot_seconds,
        wait_seconds: limits.hold_seconds,
      };
      const sandbox =
        provider.remote === true
          ? await provider.create({ ...request, signal })
          : await queued(async () =>
              bootWithin(limits.boot_seconds, signal, (within) =>
                provider.create({ ...request, signal: within }),
              ),
            );
      made.push(sandbox);
      try {
        await setUp(sandbox, task, limits, signal);
      } catch (error) {
        signal.throwIfAborted();
        if (!(error instanceof EpisodeError)) throw error;
        const { failure } = error;
        const message = `in a fresh sandbox for grading: ${failure.message}`;
        throw new EpisodeError({ ...failure, message }, { cause: error });
      }
      return sandbox;
    },
    [Symbol.asyncDispose]: async () => {
      await Promise.all(made.map((sandbox) => tearDown(sandbox, log)));
    },
  };
}
