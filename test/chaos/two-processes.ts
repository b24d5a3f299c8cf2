import type { TestPool } from '../queue/pool.ts';
import type { FromProcess, OpenPool } from './messages.ts';
import { startProcess, type PoolProcess } from './processes.ts';

/** Lets a process serve a pool with plain episodes, a feeder and a reconciler. */
export function serve(child: PoolProcess, name: string, pool: TestPool, more: Partial<OpenPool> = {}): void {
  child.open({
    name,
    options: pool.options,
    acts: 'plain',
    parts: ['worker', 'feeder', 'reconciler'],
    concurrency: 4,
    ...more,
  });
}

/** Two worker processes that may serve several pools. */
export function startTwo(): { both: readonly [PoolProcess, PoolProcess] } & AsyncDisposable {
  const both = [startProcess(), startProcess()] as const;
  return {
    both,
    [Symbol.asyncDispose]: async () => {
      for (const child of both) await child[Symbol.asyncDispose]();
    },
  };
}

/** Every start of an episode in these processes. */
export function starts(
  children: readonly PoolProcess[],
  name: string,
): Extract<FromProcess, { said: 'started' }>[] {
  return children.flatMap((child) => child.heard('started', name));
}
