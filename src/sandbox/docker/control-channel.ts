import { readFileSync } from 'node:fs';
import type { Duplex } from 'node:stream';
import { infraFailure } from '../sandbox-failure.ts';
import { demultiplex } from './demultiplex.ts';

const initScript = readFileSync(new URL('./init.sh', import.meta.url), 'utf8');

interface Waiting {
  readonly resolve: (text: string) => void;
  readonly reject: (error: Error) => void;
}

/**
 * The worker's end of init.sh: one line to the container's main process, one line back, in 0.3 ms where an exec takes
 * 70. Its stream also is the container's life line: when it ends, so does the container, whoever is left to remove it.
 */
export class ControlChannel {
  readonly #stream: Duplex;
  readonly #waiting = new Map<number, Waiting>();
  #next = 1;
  #ended = false;
  /** Resolves when the channel has ended: the container stopped, or its daemon went away. */
  readonly closed: Promise<void>;

  constructor(stream: Duplex) {
    this.#stream = stream;
    let partial = '';
    this.closed = demultiplex(stream, {
      stdout: (chunk) => {
        const lines = (partial + chunk.toString('latin1')).split('\n');
        partial = lines.pop() ?? '';
        for (const line of lines) this.#answered(line);
      },
      stderr: () => undefined,
    }).then(() => {
      this.#ended = true;
      for (const { reject } of this.#waiting.values()) reject(this.#gone());
      this.#waiting.clear();
    });
  }

  get ended(): boolean {
    return this.#ended;
  }

  /** Gives the started container its script and waits for the first line: what the preparation came to. */
  async ready(deadlineMs: number, signal: AbortSignal): Promise<string> {
    if (!this.#ended) this.#stream.write(initScript);
    return this.#wait(0, 'prepare', deadlineMs, signal);
  }

  /** Asks one thing. Rejects (infra) when the container is gone, refuses, or does not answer in time. */
  async ask(verb: string, argument: string, deadlineMs: number): Promise<string> {
    const seq = this.#next++;
    const answer = this.#wait(seq, verb, deadlineMs);
    if (!this.#ended) this.#stream.write(`${seq} ${verb} ${argument}\n`);
    return answer;
  }

  /** Lets go of the container, which ends it. */
  close(): void {
    this.#stream.destroy();
  }

  #gone(): Error {
    return infraFailure('sandbox_gone', 'the sandbox is gone: its main process or its Docker daemon ended');
  }

  async #wait(seq: number, verb: string, deadlineMs: number, signal?: AbortSignal): Promise<string> {
    if (this.#ended) throw this.#gone();
    let timer: NodeJS.Timeout | undefined;
    let onAbort: (() => void) | undefined;
    try {
      return await new Promise<string>((resolve, reject) => {
        this.#waiting.set(seq, { resolve, reject });
        timer = setTimeout(
          () =>
            reject(infraFailure('sandbox_silent', `the sandbox did not answer ${verb} in ${deadlineMs} ms`)),
          deadlineMs,
        );
        onAbort = () => reject(signal?.reason as Error);
        if (signal?.aborted) onAbort();
        else signal?.addEventListener('abort', onAbort, { once: true });
      });
    } finally {
      clearTimeout(timer);
      if (onAbort !== undefined) signal?.removeEventListener('abort', onAbort);
      this.#waiting.delete(seq);
    }
  }

  #answered(line: string): void {
    const [seq = '', status = '', ...words] = line.split(' ');
    const waiting = this.#waiting.get(Number(seq));
    if (waiting === undefined) return;
    const text = Buffer.from(words.join(' '), 'latin1').toString('utf8');
    if (status === 'ok') waiting.resolve(text);
    else waiting.reject(infraFailure('sandbox_refused', `inside the sandbox: ${text}`));
  }
}
