import { constants, copyFileSync } from 'node:fs';
import { chmod, mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { runPython, type PythonExit } from './python-process.ts';
import { python, type Python } from './python.ts';
import { killStrays } from './strays.ts';
import type { VerifierExecution, VerifierOutcome } from './verifier.ts';

const script = fileURLToPath(new URL('./python/run.py', import.meta.url));
const memoryBytes = 1024 ** 3;

/**
 * Runs a verifier over copies of the two databases, in a `python3` process that can read only those (as root: as the user
 * `nobody`, where that user can read the interpreter's library), start no other process, and use 1 GiB of memory, 1 MiB a
 * file and the time of the execution.
 *
 * A verifier that fails in any way is an outcome: `error.type` is the exception's class, `TimeoutError` past the time, or
 * `VerifierDied` when the process ended without a result. A result that JSON cannot carry keeps its meaning: NaN and the
 * infinities are the strings `NaN`, `Infinity` and `-Infinity`, an object with a `score` is a dict with it. Standard output
 * is kept to 256 KiB, its beginning and its end.
 *
 * `interpreter` defaults to the `python3` on the PATH. Rejects with the signal's reason, and with one clear line where there is no python3.
 */
export async function runVerifier(
  execution: VerifierExecution,
  interpreter?: Python,
): Promise<VerifierOutcome> {
  const used = interpreter ?? (await python());
  execution.signal.throwIfAborted();
  const started = performance.now();
  const directory = await mkdtemp(join(tmpdir(), `rp-verifier-${process.pid}-`));
  try {
    const input = await prepare(execution, directory, used.packages);
    const exit = await runPython({
      python: used,
      script,
      input,
      directory: join(directory, 'home'),
      timeout_ms: execution.timeout_seconds * 1000,
      signal: execution.signal,
    });
    execution.signal.throwIfAborted();
    return { ...verdict(exit, execution), execution_time_ms: Math.round(performance.now() - started) };
  } finally {
    await killStrays(join(directory, 'home'));
    await rm(directory, { recursive: true, force: true });
  }
}

async function prepare(
  execution: VerifierExecution,
  directory: string,
  packages: readonly string[],
): Promise<string> {
  const file = (name: string): string => join(directory, name);
  // Only who knows a name below can open it, and nobody but the owner can list or change the directory.
  await chmod(directory, 0o711);
  await mkdir(file('home'));
  await chmod(file('home'), 0o777);
  await writeFile(file('bundle.zip'), execution.bundle);
  // In one go, so that no tool call of this process writes while a file is being copied.
  copyFileSync(execution.seedPath, file('seed.db'), constants.COPYFILE_FICLONE);
  copyFileSync(execution.currentPath, file('current.db'), constants.COPYFILE_FICLONE);
  for (const name of ['bundle.zip', 'seed.db', 'current.db']) await chmod(file(name), 0o444);
  return JSON.stringify({
    bundle: file('bundle.zip'),
    seed: file('seed.db'),
    current: file('current.db'),
    function_name: execution.function_name,
    args: Buffer.from(execution.args).toString('base64'),
    env_variables: execution.env_variables,
    timeout_seconds: execution.timeout_seconds,
    memory_bytes: memoryBytes,
    packages,
  });
}

type Verdict = Omit<VerifierOutcome, 'execution_time_ms'>;

function verdict(exit: PythonExit, execution: VerifierExecution): Verdict {
  if (exit.timedOut) {
    const message = `the verifier took longer than ${execution.timeout_seconds} s`;
    return failed(exit.stdout, 'TimeoutError', message, '');
  }
  try {
    const { success, result, error } = JSON.parse(exit.answer) as Omit<Verdict, 'stdout'>;
    return { success, result, error, stdout: exit.stdout };
  } catch {
    const message = `the verifier's process ended with ${exit.ending} before it gave a result`;
    return failed(exit.stdout, 'VerifierDied', message, exit.stderr.slice(-4000));
  }
}

function failed(stdout: string, type: string, message: string, traceback: string): Verdict {
  return { success: false, result: null, error: { type, message, traceback }, stdout };
}
