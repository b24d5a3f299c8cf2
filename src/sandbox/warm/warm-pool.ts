import { randomBytes } from 'node:crypto';
import { contentHash, type ReapFilter } from '../../contracts/index.ts';
import { silentLogger, type Logger } from '../../observe/index.ts';
import type {
  Ahead,
  PreparedSandbox,
  Sandbox,
  SandboxProvider,
  SandboxRequest,
  StartedAhead,
} from '../sandbox.ts';
import { WarmShelf, type MakeItem, type ShelfItem, type WarmShelfOptions } from './warm-shelf.ts';

/** How long one may take to say that it is well. */
const checkMs = 1_000;
/** How long one may wait for an episode. */
const idleSeconds = 600;

/** A sandbox on the shelf. */
interface WarmSandbox extends ShelfItem {
  readonly prepared: PreparedSandbox;
  readonly ahead: StartedAhead | null;
}

/** Where all pools of a process keep their sandboxes, so that they share one bound. */
export type SandboxShelf = WarmShelf<WarmSandbox>;

export function createSandboxShelf(options: WarmShelfOptions): SandboxShelf {
  return new WarmShelf<WarmSandbox>(options);
}

export interface WarmPoolOptions {
  /** Disposed by its owner, before the pool. */
  readonly shelf: SandboxShelf;
  readonly log?: Logger;
}

/** Names all of a request that shapes a sandbox and says whose it is, and nothing of its episode. */
function keyOf(provider: string, request: SandboxRequest): string {
  const { spec, cli_binary, ahead, owner } = request;
  return contentHash([provider, owner.pool, owner.worker, spec, cli_binary, ahead?.key ?? null]);
}

/** Makes one that waits: its owner is the worker, and no run. Seconds of the wait are added to its time to live. */
function maker(
  provider: SandboxProvider,
  prepare: NonNullable<SandboxProvider['prepare']>,
  { spec, cli_binary, ttl_seconds, owner: { pool, worker }, ahead = null }: SandboxRequest,
): MakeItem<WarmSandbox> {
  return async (signal) => {
    await provider.provide?.(spec, signal);
    const nonce = `w${randomBytes(8).toString('hex')}`;
    const prepared = await prepare({
      spec,
      cli_binary,
      owner: { pool, worker, run_id: '', episode_id: '', attempt: 0, nonce },
      ttl_seconds: ttl_seconds + idleSeconds,
      signal,
    });
    try {
      signal.throwIfAborted();
      const started = await startIn(prepared, ahead, signal);
      return {
        prepared,
        ahead: started,
        keep_ms: idleSeconds * 1000,
        check: async () => started?.alive() !== false && (await prepared.check(checkMs)),
        [Symbol.asyncDispose]: () => prepared[Symbol.asyncDispose](),
      };
    } catch (error) {
      await prepared[Symbol.asyncDispose]();
      throw error;
    }
  };
}

async function startIn(
  prepared: PreparedSandbox,
  ahead: Ahead | null,
  signal: AbortSignal,
): Promise<StartedAhead | null> {
  return ahead === null ? null : ahead.start(prepared.sandbox, signal);
}

/**
 * A provider whose sandboxes are mostly there before they are asked for. A request gets one that was made for exactly its
 * image, size, network, directory and CLI, and was found well at that moment, or else one that is made for it. A provider
 * that cannot make them ahead is given back as it is.
 */
export function createWarmPool(provider: SandboxProvider, options: WarmPoolOptions): SandboxProvider {
  const { shelf, log = silentLogger } = options;
  const prepare = provider.prepare?.bind(provider);
  if (prepare === undefined) return provider;

  const fromShelf = async (key: string, request: SandboxRequest, dir: string): Promise<Sandbox | null> => {
    for (;;) {
      const found = await shelf.take(key);
      if (found === null) return null;
      const { prepared, ahead } = found;
      try {
        const { ttl_seconds, signal } = request;
        const sandbox = await prepared.assign({ gateway_dir: dir, ttl_seconds, signal });
        return Object.assign(sandbox, { warm: { ahead } });
      } catch (error) {
        request.signal.throwIfAborted();
        log.warn({ err: error, sandbox: prepared.id }, 'a sandbox made ahead could not be used');
      }
    }
  };

  return {
    name: provider.name,
    ...(provider.shared === undefined ? {} : { shared: provider.shared }),
    ...(provider.remote === undefined ? {} : { remote: provider.remote }),
    probe: (signal) => provider.probe(signal),
    async create(request) {
      request.signal.throwIfAborted();
      const { gateway_dir, snapshot = null } = request;
      // Before the request is noted: what is made ahead is made when nobody waits.
      using _busy = shelf.busy();
      if (gateway_dir === null || snapshot !== null) return await provider.create(request);
      const key = keyOf(provider.name, request);
      shelf.asked(key, maker(provider, prepare, request));
      return (await fromShelf(key, request, gateway_dir)) ?? (await provider.create(request));
    },
    ...(provider.provide === undefined ? {} : { provide: provider.provide.bind(provider) }),
    ...(provider.listSnapshots === undefined ? {} : { listSnapshots: provider.listSnapshots.bind(provider) }),
    ...(provider.removeSnapshot === undefined
      ? {}
      : { removeSnapshot: provider.removeSnapshot.bind(provider) }),
    reap: (filter: ReapFilter) => provider.reap(filter),
    [Symbol.asyncDispose]: () => provider[Symbol.asyncDispose](),
  };
}
