import { PassThrough, Writable } from 'node:stream';
import { killOnAbort } from '../bounded-command.ts';
import type { SandboxProcess } from '../sandbox.ts';
import type { ExecStart, RunningExec } from './container-exec.ts';
import type { Sink } from './demultiplex.ts';

/** Takes what a stream can hold and waits for its reader then. A stream that was closed takes everything. */
function pacedSink(stream: PassThrough): Sink {
  return (chunk) => {
    if (stream.destroyed || stream.write(chunk)) return;
    return new Promise<void>((resolve) => {
      const done = (): void => {
        stream.off('drain', done);
        stream.off('close', done);
        resolve();
      };
      stream.on('drain', done);
      stream.on('close', done);
    });
  };
}

export interface SpawnedParts {
  start(sinks: ExecStart['sinks']): Promise<RunningExec>;
  killTree(running: RunningExec): Promise<void>;
  /** Whether the whole sandbox ended. */
  isGone(): Promise<boolean>;
  readonly signal: AbortSignal | undefined;
}

/** Starts a command whose streams are read while it runs. */
export async function spawnedProcess(parts: SpawnedParts): Promise<SandboxProcess> {
  const stdout = new PassThrough();
  const stderr = new PassThrough();
  const running = await parts.start({ stdout: pacedSink(stdout), stderr: pacedSink(stderr) });
  let ended = false;
  const exited = running.exited.then(async (code) => {
    ended = true;
    stdout.end();
    stderr.end();
    // Killed with its container, or by somebody inside?
    const gone = code !== null && code >= 126 && (await parts.isGone());
    return gone ? null : code;
  });
  const kill = async (): Promise<void> => {
    if (!ended) await parts.killTree(running);
    // What nobody reads any more must not hold the end back.
    stdout.resume();
    stderr.resume();
    await exited;
  };
  killOnAbort({ exited, kill }, parts.signal);
  return {
    stdin: new Writable({
      write: (chunk: Buffer, _encoding, done) => {
        if (running.stdin.destroyed) done();
        else running.stdin.write(chunk, () => done());
      },
      final: (done) => {
        if (running.stdin.destroyed) done();
        else running.stdin.end(() => done());
      },
    }),
    stdout,
    stderr,
    exited,
    kill,
    [Symbol.asyncDispose]: kill,
  };
}
