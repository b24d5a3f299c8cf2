import { createHash, randomBytes } from 'node:crypto';
import { chmod, mkdir, rm } from 'node:fs/promises';
import { createServer, type RequestListener, type Server } from 'node:http';
import { join } from 'node:path';
import type { CallRecord } from '../../contracts/index.ts';
import type { ChatAnswer, ChatCaller, ChatRequest } from '../chat.ts';
import type { EpisodeSession } from '../calls/episode-session.ts';
import type { GatewaySession, SessionOptions, SessionStats } from '../session.ts';
import { Clients } from './clients.ts';
import { SessionLoad } from './session-load.ts';
import { SharedCalls } from './shared-call.ts';

/** What a path in `sockaddr_un` may have on every system we serve, its end included. */
export const socketPathLimit = 100;

/** Directory of an attempt's socket: short, and findable from the attempt's nonce. */
export function socketDirectory(runtimeDir: string, nonce: string): string {
  return join(runtimeDir, `gw-${createHash('sha256').update(nonce).digest('hex').slice(0, 12)}`);
}

export function socketFile(directory: string): string {
  return join(directory, 'gw.sock');
}

/** Connections to one session's socket: an agent that opens more must not use up this process's file descriptors. */
const connectionLimit = 128;

/** Connections live as long as the agent wants: a server that closes an idle one races with the next request. */
export function httpServer(listener: RequestListener): Server {
  return createServer({ keepAliveTimeout: 3_600_000, requestTimeout: 0, headersTimeout: 60_000 }, listener);
}

async function listenOn(server: Server, path: string): Promise<void> {
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject);
    server.listen(path, () => {
      server.off('error', reject);
      resolve();
    });
  });
}

/** The shortest bearer that is taken from outside: 128 random bits. */
const bearerLength = 22;

/** Who keeps the list of sessions. */
export interface SessionWatcher {
  /** It has one more bearer. Throws when that is another session's. */
  adopted(session: OpenSession, bearer: string): void;
  /** Its bearers are no longer good. */
  finished(session: OpenSession): void;
  /** Nothing of it is left. */
  disposed(session: OpenSession): void;
}

/** One attempt as HTTP serves it: a bearer, perhaps a Unix socket, and the calls behind both. */
export class OpenSession implements GatewaySession {
  readonly bearer = `rp-${randomBytes(32).toString('base64url')}`;
  readonly url: string;
  readonly socket_dir: string | null;
  readonly clients = new Clients();
  readonly load = new SessionLoad();
  readonly shared: SharedCalls;
  readonly calls: EpisodeSession;
  readonly #told: SessionWatcher;
  readonly #adopted: string[] = [];
  #server: Server | null = null;
  #finished: Promise<readonly CallRecord[]> | null = null;

  constructor(
    calls: EpisodeSession,
    options: SessionOptions,
    place: { readonly url: string; readonly runtimeDir: string; readonly graceMs: number | undefined },
    told: SessionWatcher,
  ) {
    this.calls = calls;
    this.url = place.url;
    this.socket_dir = options.unix_socket === false ? null : socketDirectory(place.runtimeDir, options.nonce);
    this.shared = new SharedCalls(place.graceMs);
    this.#told = told;
  }

  get failed(): AbortSignal {
    return this.calls.failed;
  }

  /** Opens the Unix socket, if it has one. */
  async listen(listener: RequestListener): Promise<void> {
    if (this.socket_dir === null) return;
    // Only a directory of our own is taken: what stands there already is a twin's or a stranger's.
    await mkdir(this.socket_dir, { mode: 0o711 });
    await chmod(this.socket_dir, 0o711);
    const server = httpServer(listener);
    server.maxConnections = connectionLimit;
    try {
      await listenOn(server, socketFile(this.socket_dir));
      this.#server = server;
      await chmod(socketFile(this.socket_dir), 0o666);
    } catch (error) {
      await this.#closeSocket();
      await this.#removeDirectory();
      throw error;
    }
  }

  adopt(bearer: string): void {
    if (this.#finished !== null) throw new Error('a session that has ended takes no bearer');
    if (bearer.length < bearerLength) throw new Error('a bearer this short could be guessed');
    this.#told.adopted(this, bearer);
    this.#adopted.push(bearer);
  }

  /** Every bearer it is known by. */
  get bearers(): readonly string[] {
    return [this.bearer, ...this.#adopted];
  }

  stats(): SessionStats {
    return this.calls.stats();
  }

  chat(request: ChatRequest, caller: ChatCaller): Promise<ChatAnswer> {
    return this.calls.chat(request, caller);
  }

  finish(): Promise<readonly CallRecord[]> {
    this.#finished ??= this.#finish();
    return this.#finished;
  }

  async #finish(): Promise<readonly CallRecord[]> {
    this.#told.finished(this);
    await this.calls.close();
    // An agent that ended has its last answer; the event that says so may still be on its way to us.
    await this.shared.settled(1_000);
    await this.#closeSocket();
    return this.calls.records();
  }

  async #closeSocket(): Promise<void> {
    const server = this.#server;
    this.#server = null;
    if (server !== null) {
      const closed = new Promise((resolve) => server.close(resolve));
      server.closeAllConnections();
      await closed;
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.finish();
    // Not before: the directory is mounted in a sandbox that is still graded, and Docker mounts it anew for every copy.
    await this.#removeDirectory();
    this.#told.disposed(this);
  }

  async #removeDirectory(): Promise<void> {
    if (this.socket_dir !== null) await rm(this.socket_dir, { recursive: true, force: true });
  }
}
