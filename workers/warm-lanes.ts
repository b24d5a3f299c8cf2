import type { Settings } from '../src/config/index.ts';
import type { Lane } from '../src/contracts/index.ts';
import type { Logger } from '../src/observe/index.ts';
import { createSandboxShelf, createWarmPool } from '../src/sandbox/index.ts';
import type { ServedLane, ServedLanes } from './lanes.ts';

/**
 * Lanes whose sandboxes are made ahead. One of E2B costs money while it waits and takes a place from the whole pool: that
 * lane has them only on a worker without Docker, where nothing else can be meant.
 */
export function warmedLanes(lanes: readonly Lane[]): Lane[] {
  if (lanes.includes('claude_code-docker')) return ['claude_code-docker'];
  return lanes.filter((lane) => lane === 'claude_code-e2b');
}

export interface WarmLanes extends ServedLanes {
  /** Makes nothing ahead any more and removes what waits: the worker takes no more episodes. */
  drain(): void;
}

/** The same lanes, with sandboxes ready ahead of their episodes where the settings ask for that. */
export function warmLanes(served: ServedLanes, settings: Settings, log: Logger): WarmLanes {
  const shelf = createSandboxShelf({ capacity: settings.sandbox.warm, log });
  const warmed = new Set(settings.sandbox.warm === 0 ? [] : warmedLanes([...served.keys()]));
  const lanes = new Map<Lane, ServedLane>();
  for (const [name, lane] of served) {
    const made =
      warmed.has(name) && lane.provider !== null
        ? { ...lane, provider: createWarmPool(lane.provider, { shelf, log }) }
        : lane;
    lanes.set(name, made);
  }
  return Object.assign(lanes, {
    drain: () => shelf.drain(),
    [Symbol.asyncDispose]: async () => {
      await shelf[Symbol.asyncDispose]();
      await served[Symbol.asyncDispose]();
    },
  });
}
