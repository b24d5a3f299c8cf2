import { once } from 'node:events';
import type { Readable } from 'node:stream';
import type { SandboxProcess } from '../../sandbox/sandbox.ts';
import { createOutputTail } from './output-tail.ts';
import { advance, noProgress, type Progress } from './progress.ts';
import { createStreamJsonParser, type JsonLinesStats } from './stream-json.ts';
import { within } from './within.ts';

const stderrTailChars = 2_000;
/** Output of a process that has exited: a descendant may hold the pipe open for ever. */
const drainMs = 2_000;

/** What a CLI says, read from its start on. */
export interface CliOutput {
  /** Resolves when it has had its last word. */
  readonly resultSeen: Promise<void>;
  progress(): Progress;
  lines(): JsonLinesStats;
  /** The end of its errors, secrets taken out. */
  stderr(): string;
  /** After its exit: waits a while for what is still in the pipes. */
  drain(): Promise<void>;
}

function readAll(stream: Readable, onChunk: (chunk: Uint8Array) => void): Promise<unknown> {
  stream.on('data', onChunk);
  // An output that breaks off is told by the exit code.
  stream.on('error', () => {});
  return stream.readableEnded || stream.destroyed ? Promise.resolve() : once(stream, 'close').catch(() => {});
}

/** Reads a CLI's streams until they end. `secrets` are kept out of what is kept of its errors. */
export function readCliOutput(cli: SandboxProcess, secrets: readonly string[]): CliOutput {
  let progress: Progress = noProgress;
  let sawResult = (): void => {};
  const resultSeen = new Promise<void>((resolve) => {
    sawResult = resolve;
  });
  const parser = createStreamJsonParser((event) => {
    progress = advance(progress, event);
    if (progress.result !== null) sawResult();
  });
  const stderr = createOutputTail(stderrTailChars, secrets);
  const drained = Promise.all([
    readAll(cli.stdout, (chunk) => parser.push(chunk)),
    readAll(cli.stderr, (chunk) => stderr.push(chunk)),
  ]);
  return {
    resultSeen,
    progress: () => progress,
    lines: () => parser.stats(),
    stderr: () => stderr.text(),
    drain: async () => {
      await within(drainMs, drained, undefined);
      parser.end();
    },
  };
}
