import type { Logger } from '../../observe/index.ts';
import type { Sandbox } from '../sandbox.ts';

/**
 * What a tunnel needs of a sandbox: commands of root's whose stdin and stdout carry any byte. Both are called with
 * `user: 'root'` and `cwd: '/'`. `exec` gets the relay's text as stdin (25 KB). Of what `spawn` gives, the streams,
 * `exited` and `kill` are used; its stdin is written in pieces of at most 64 KiB, one at a time.
 */
export type TunnelHost = Pick<Sandbox, 'exec' | 'spawn'>;

/** A place where processes of the sandbox connect, and the Unix socket on this machine that they reach by it. */
export interface TunnelRoute {
  readonly name: string;
  /**
   * A Unix socket at an absolute path inside (its directory is made when it is missing; mode default 0o666), or a port of
   * 127.0.0.1 inside.
   */
  readonly listen: { readonly unix: string; readonly mode?: number } | { readonly tcp: number };
  /** Path of a Unix socket on this machine; null: connections are refused until `setTarget`. */
  readonly target: string | null;
}

export interface TunnelOptions {
  readonly host: TunnelHost;
  readonly routes: readonly TunnelRoute[];
  /** Directory inside, of root's alone, for the relay and its control socket. Default: `/run/rollpool-tunnel`. */
  readonly directory?: string;
  /** Ends the opening; an open tunnel is ended by disposing it. */
  readonly signal: AbortSignal;
  readonly log?: Logger;
  /** Milliseconds the opening may take. Default: 60,000. */
  readonly openMs?: number;
  /** Milliseconds in which a channel that broke has to be open again; past them the tunnel is lost. Default: 60,000. */
  readonly reopenMs?: number;
  /** Milliseconds without a byte after which the other end is asked for one. Default: 10,000. */
  readonly pingMs?: number;
  /** Milliseconds without a byte after which a channel counts as broken. Default: 30,000. */
  readonly silenceMs?: number;
  /** Seconds without a worker after which the relay inside ends by itself. Default: 120. */
  readonly lingerSeconds?: number;
}

/** Counts since the tunnel was opened. */
export interface TunnelStats {
  /** Times the channel broke and was opened again. */
  readonly reopened: number;
  /** Numbered frames that were sent once more after that. */
  readonly resent: number;
  /** Times the relay was found dead or new, and every connection through it was reset. */
  readonly restarted: number;
  /** Connections carried, and those that are open now. */
  readonly streams: number;
  readonly open_streams: number;
  readonly bytes_in: number;
  readonly bytes_out: number;
}

/**
 * An open tunnel: connections made inside reach sockets on this machine, over the stdin and stdout of one command.
 * Disposing it ends the relay inside and every connection. Never throws while it runs; see `lost`.
 */
export interface Tunnel extends AsyncDisposable {
  /** `open`; `reopening`: the channel broke, connections wait; `lost`: it could not be reopened; `closed`: disposed. */
  readonly state: 'open' | 'reopening' | 'lost' | 'closed';
  /** Aborted with an EpisodeError (infra, `tunnel_lost`) when the channel could not be reopened: the sandbox counts as gone. */
  readonly lost: AbortSignal;
  /** Where new connections of a route lead from now on; those that are open stay where they are. */
  setTarget(name: string, path: string | null): void;
  stats(): TunnelStats;
}
