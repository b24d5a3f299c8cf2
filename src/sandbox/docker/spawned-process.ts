import { PassThrough, Writable } from 'node:stream';
import { killOnAbort } from '../bounded-command.ts';
import { pacedSink } from '../paced-sink.ts';
import type { SandboxProcess } from '../sandbox.ts';
import type { ExecStart, RunningExec } from './container-exec.ts';

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
