import { Writable } from 'node:stream';
import type { Sink } from '../paced-sink.ts';
import type { SandboxUser } from '../sandbox.ts';
import { accounts } from './accounts.ts';
import type { Channel } from './channel.ts';

export interface RemoteStart {
  /** A command, run by bash; or a verb of inside/verbs.py. */
  readonly run:
    | {
        readonly command: string | readonly string[];
        readonly cwd: string;
        readonly env: Readonly<Record<string, string>>;
      }
    | { readonly verb: string; readonly args: Readonly<Record<string, unknown>> };
  readonly user: SandboxUser;
  /** PATH of the template. */
  readonly path: string;
  /** Bytes of each output that are wanted, the last ones, once it has ended; null: all of it while it runs. */
  readonly tail: number | null;
  readonly sinks: { readonly out: Sink; readonly err: Sink };
}

export interface RemoteExit {
  /** 128 + n for signal n; null: the sandbox is gone. */
  readonly code: number | null;
  /** False: it could not be started, and why is in its stderr. */
  readonly started: boolean;
  /** Bytes written. */
  readonly bytes: { readonly out: number; readonly err: number };
}

/** A command that runs inside. */
export interface RemoteCommand {
  readonly stdin: Writable;
  /** Never rejects. All output was taken before. */
  readonly exited: Promise<RemoteExit>;
  /** Asks for the end of it and all it started; `exited` tells when that has come. */
  kill(): void;
}

const pieceBytes = 64 * 1024;
const inputWindow = 256 * 1024;
const tellRoomBytes = 64 * 1024;

/** A list runs as it stands; through bash, so that a program that is not there is exit code 127. */
function argvOf(command: string | readonly string[]): string[] {
  return typeof command === 'string'
    ? ['bash', '--noprofile', '--norc', '-c', command]
    : ['bash', '--noprofile', '--norc', '-c', 'exec "$@"', 'bash', ...command];
}

/** Standard input of a command: at most a window of it is on its way. */
class Input extends Writable {
  readonly #send: (piece: Uint8Array | null) => void;
  #room = inputWindow;
  #onRoom: (() => void) | undefined;

  constructor(send: (piece: Uint8Array | null) => void) {
    super({ highWaterMark: inputWindow });
    this.#send = send;
    // Writing to a command that has ended is nobody's error.
    this.on('error', () => undefined);
  }

  grow(bytes: number): void {
    this.#room += bytes;
    this.#onRoom?.();
  }

  override _write(chunk: Buffer, _encoding: BufferEncoding, done: (error?: Error) => void): void {
    const next = (at: number): void => {
      this.#onRoom = undefined;
      let from = at;
      while (from < chunk.length && this.#room > 0) {
        const piece = chunk.subarray(from, from + Math.min(pieceBytes, this.#room));
        this.#room -= piece.length;
        from += piece.length;
        this.#send(piece);
      }
      if (from >= chunk.length) done();
      else this.#onRoom = () => next(from);
    };
    next(0);
  }

  override _final(done: (error?: Error) => void): void {
    this.#send(null);
    done();
  }
}

/** Starts a command over a channel. Throws (EpisodeError, infra) when the sandbox is gone. */
export function startRemote(channel: Channel, start: RemoteStart): RemoteCommand {
  const account = accounts[start.user];
  let settle: (exit: RemoteExit) => void = () => undefined;
  const exited = new Promise<RemoteExit>((resolve) => (settle = resolve));
  const taken: Record<'out' | 'err', Promise<void>> = { out: Promise.resolve(), err: Promise.resolve() };
  const untold = { out: 0, err: 0 };
  let over = false;

  const tellRoom = (stream: 'out' | 'err'): void => {
    if (over || untold[stream] === 0) return;
    channel.send({ op: 'room', id, s: stream, bytes: untold[stream] });
    untold[stream] = 0;
  };
  const input = new Input((piece) => {
    if (over) return;
    if (piece === null) channel.send({ op: 'eof', id });
    // Copied: a stream's chunk may be a view of what is written again.
    else channel.send({ op: 'in', id }, Buffer.from(piece));
  });

  const { run } = start;
  const id: number = channel.start(
    {
      user: start.user,
      uid: account.uid,
      home: account.home,
      path: start.path,
      tail: start.tail,
      ...('verb' in run
        ? { verb: run.verb, args: run.args }
        : { argv: argvOf(run.command), cwd: run.cwd, env: run.env }),
    },
    {
      data: (stream, bytes) => {
        taken[stream] = taken[stream].then(async () => {
          await start.sinks[stream](bytes);
          if (start.tail !== null) return;
          untold[stream] += bytes.length;
          if (untold[stream] >= tellRoomBytes) tellRoom(stream);
        });
      },
      room: (bytes) => input.grow(bytes),
      exit: (header) => {
        over = true;
        input.destroy();
        void Promise.all([taken.out, taken.err]).then(() => {
          const code = (header?.['code'] as number | undefined) ?? null;
          settle({
            code,
            started: code !== -1,
            bytes: { out: Number(header?.['out'] ?? 0), err: Number(header?.['err'] ?? 0) },
          });
        });
      },
    },
  );
  return { stdin: input, exited, kill: () => channel.send({ op: 'kill', id }) };
}
