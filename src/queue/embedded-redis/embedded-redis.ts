import { mkdir, realpath } from 'node:fs/promises';
import { join } from 'node:path';
import type { Logger } from '../../observe/index.ts';
import { lookUp } from './process-record.ts';
import { abandonServer, ensureServer, runningServer, stopServer, type ServerRecord } from './server.ts';
import { takeTurn, tryTurn } from './turn.ts';
import { addUser, hasUsers, removeUser } from './users.ts';

const turnMs = 60_000;

export interface EmbeddedRedisOptions {
  /** Where the data live; made (0700) when absent. One server serves it, however many processes ask. */
  readonly dataDir: string;
  readonly log: Logger;
  /** Server binary. Default: `redis-server` or `valkey-server` from the PATH. */
  readonly binary?: string;
  /** Gives up the start. */
  readonly signal?: AbortSignal;
  /** Milliseconds between two looks at whether the server still lives; a dead one is started again. Default: 500. */
  readonly watchMs?: number;
}

/** A Redis that is there for this process. Disposing of the last user's stops the server; its data stay. */
export interface EmbeddedRedis extends AsyncDisposable {
  /** `unix:///path/to/redis.sock`: a `REDIS_URL`. Stays the same when the server is started anew. */
  readonly url: string;
  /** True when the server ran already: another process uses it, or one that was killed left it behind. */
  readonly adopted: boolean;
  /** Process id of the server. */
  pid(): number;
}

/**
 * Starts a private Redis over `dataDir`, or joins the one that runs there: append-only file synced every second, no
 * eviction, no TCP, a Unix socket in a directory only this user may enter. Processes that use the same directory
 * share it safely, and the last one to leave stops it. What a killed process left behind is adopted by the next one.
 *
 * @throws EmbeddedRedisError with a message for people: no binary, a start that fails (with the log's end), data in
 *   use by another machine.
 */
export async function startEmbeddedRedis(options: EmbeddedRedisOptions): Promise<EmbeddedRedis> {
  const { log, binary, signal } = options;
  await mkdir(options.dataDir, { recursive: true, mode: 0o700 });
  const dataDir = await realpath(options.dataDir);
  const turns = join(dataDir, 'turns');

  let server: ServerRecord;
  let adopted: boolean;
  let user: string;
  {
    using _turn = await takeTurn(turns, turnMs, signal);
    ({ server, adopted } = await ensureServer(dataDir, binary, signal));
    user = addUser(dataDir);
  }
  log.debug({ pid: server.pid, dataDir, adopted }, 'embedded Redis');

  const stopped = new AbortController();
  let reviving: Promise<void> | null = null;
  const revive = async (): Promise<void> => {
    try {
      using _turn = await takeTurn(turns, turnMs, stopped.signal);
      ({ server } = await ensureServer(dataDir, binary, stopped.signal));
      log.warn({ pid: server.pid }, 'the embedded Redis had ended and was started again');
    } catch (fault) {
      if (!stopped.signal.aborted) log.error({ err: (fault as Error).message }, 'embedded Redis');
    } finally {
      reviving = null;
    }
  };
  const watch = setInterval(() => {
    if (reviving === null && lookUp(server) === 'dead') reviving = revive();
  }, options.watchMs ?? 500);
  watch.unref();

  // For an exit that nobody announced. There is no waiting here; what stays behind is adopted by the next start.
  const atExit = (): void => {
    try {
      using turn = tryTurn(turns);
      if (turn === null) return;
      removeUser(user);
      if (!hasUsers(dataDir)) abandonServer(dataDir);
    } catch {
      // The process is going; there is nobody to tell.
    }
  };
  process.on('exit', atExit);

  let disposed: Promise<void> | null = null;
  const leave = async (): Promise<void> => {
    clearInterval(watch);
    stopped.abort();
    await reviving;
    using _turn = await takeTurn(turns, turnMs);
    process.off('exit', atExit);
    removeUser(user);
    if (hasUsers(dataDir)) return;
    const running = await runningServer(dataDir);
    if (running !== null) await stopServer(dataDir, running);
  };

  return {
    url: `unix://${server.socket}`,
    adopted,
    pid: () => server.pid,
    [Symbol.asyncDispose]: () => (disposed ??= leave()),
  };
}
