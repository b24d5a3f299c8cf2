import type { Socket } from 'node:net';

/** Hosts that are remembered by their names; all further ones are one number. */
const namedHosts = 32;

/** Counts since the proxy was opened. */
export interface EgressStats {
  /** Requests for a host on the list, whether or not it answered. */
  readonly allowed: number;
  /** Requests for anything else, malformed ones included. */
  readonly refused: number;
  /** Allowed requests whose host could not be reached. */
  readonly failed: number;
  /** Bytes sent to hosts, and received from them. */
  readonly bytesSent: number;
  readonly bytesReceived: number;
  /** Connections of the sandbox that are open now. */
  readonly connections: number;
  /** Requests refused, by `host:port`; of the first 32 only. */
  readonly refusedHosts: Readonly<Record<string, number>>;
}

export class EgressCounts {
  allowed = 0;
  refused = 0;
  failed = 0;
  #sent = 0;
  #received = 0;
  readonly #live = new Set<Socket>();
  readonly #hosts = new Map<string, number>();

  /** Counts the bytes of a connection to a host. */
  follow(upstream: Socket): void {
    this.#live.add(upstream);
    upstream.once('close', () => {
      this.#live.delete(upstream);
      this.#sent += upstream.bytesWritten;
      this.#received += upstream.bytesRead;
    });
  }

  /** True the first time a host is refused, as long as hosts are remembered. */
  refuse(host: string): boolean {
    this.refused += 1;
    const before = this.#hosts.get(host);
    if (before === undefined && this.#hosts.size >= namedHosts) return false;
    this.#hosts.set(host, (before ?? 0) + 1);
    return before === undefined;
  }

  snapshot(connections: number): EgressStats {
    let bytesSent = this.#sent;
    let bytesReceived = this.#received;
    for (const upstream of this.#live) {
      bytesSent += upstream.bytesWritten;
      bytesReceived += upstream.bytesRead;
    }
    return {
      allowed: this.allowed,
      refused: this.refused,
      failed: this.failed,
      bytesSent,
      bytesReceived,
      connections,
      refusedHosts: Object.fromEntries(this.#hosts),
    };
  }
}
