import type { ServerResponse } from 'node:http';

/** Requests of one session that are being read or answered, pipelined ones included. */
const requestsAtOnce = 256;
/** Bytes of their bodies. */
const bodyBytesAtOnce = 256 * 2 ** 20;
/** Questions for a count of tokens that reach the policy: at once, and in all. The rest are answered by an estimate. */
const countsAtOnce = 4;
const countsInAll = 2_000;

/** What one session asks of this process right now: an agent can ask for as much as it likes, and others live here too. */
export class SessionLoad {
  #requests = 0;
  #bytes = 0;
  #counting = 0;
  #counted = 0;

  /** Takes a request in until its response is closed; null when there are too many. */
  enter(response: ServerResponse): RequestLoad | null {
    if (this.#requests >= requestsAtOnce) return null;
    this.#requests++;
    let bytes = 0;
    response.once('close', () => {
      this.#requests--;
      this.#bytes -= bytes;
      bytes = 0;
    });
    return {
      take: (more) => {
        if (this.#bytes + more > bodyBytesAtOnce) return false;
        this.#bytes += more;
        bytes += more;
        return true;
      },
    };
  }

  /** Asks the policy by `count`, or gives null when it was asked often enough. */
  async count(count: () => Promise<number | null>): Promise<number | null> {
    if (this.#counting >= countsAtOnce || this.#counted >= countsInAll) return null;
    this.#counting++;
    this.#counted++;
    try {
      return await count();
    } finally {
      this.#counting--;
    }
  }
}

/** One request's part of it. */
export interface RequestLoad {
  /** More bytes of its body; false when the session holds too many already. */
  take(bytes: number): boolean;
}
