import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { strToU8, zipSync } from 'fflate';
import sqlite from 'node-sqlite3-wasm';
import { runVerifier } from '../../../src/local-fleet/verifier/run-verifier.ts';
import type { Python } from '../../../src/local-fleet/verifier/python.ts';
import type { VerifierExecution, VerifierOutcome } from '../../../src/local-fleet/verifier/verifier.ts';

/** CPython's own pickle of a call, as the vendor's SDK sends it. */
export function pickled(
  positional: readonly unknown[] = [],
  named: Record<string, unknown> = {},
): Uint8Array {
  const program =
    'import json, pickle, sys; call = json.load(sys.stdin); ' +
    'sys.stdout.buffer.write(pickle.dumps({"args": (None, *call["args"], {"env": "i-1"}), "kwargs": call["kwargs"]}))';
  return execFileSync('python3', ['-I', '-S', '-c', program], {
    input: JSON.stringify({ args: positional, kwargs: named }),
  });
}

export const noArguments = pickled();

/** Two databases, and verifiers run over them. */
export interface Scene extends Disposable {
  readonly directory: string;
  readonly seedPath: string;
  readonly currentPath: string;
  run(source: string, options?: RunOptions): Promise<VerifierOutcome>;
}

export interface RunOptions {
  readonly args?: Uint8Array;
  readonly function_name?: string;
  readonly timeout_seconds?: number;
  readonly signal?: AbortSignal;
  readonly env_variables?: Record<string, unknown>;
  readonly bundle?: Uint8Array;
  readonly interpreter?: Python;
}

export function bundled(source: string, others: Record<string, string> = {}): Uint8Array {
  const files = { 'requirements.txt': 'fleet-python', 'verifier.py': source, ...others };
  return zipSync(Object.fromEntries(Object.entries(files).map(([name, text]) => [name, strToU8(text)])));
}

/** `current` is `seed` with `changes` made to it. */
export function openScene(seed: string, changes = ''): Scene {
  const directory = mkdtempSync(join(tmpdir(), `rp-verifier-test-${process.pid}-`));
  const seedPath = join(directory, 'seed.db');
  const currentPath = join(directory, 'current.db');
  for (const [path, sql] of [
    [seedPath, seed],
    [currentPath, `${seed};${changes}`],
  ] as const) {
    const database = new sqlite.Database(path);
    // One write to the disk, and none that is waited for.
    database.exec(`PRAGMA synchronous = OFF; BEGIN; ${sql}; COMMIT`);
    database.close();
  }
  return {
    directory,
    seedPath,
    currentPath,
    run: (source, options = {}) => {
      const execution: VerifierExecution = {
        bundle: options.bundle ?? bundled(source),
        function_name: options.function_name ?? /def (\w+)/.exec(source)?.[1] ?? 'verify',
        args: options.args ?? noArguments,
        seedPath,
        currentPath,
        env_variables: options.env_variables ?? {},
        timeout_seconds: options.timeout_seconds ?? 60,
        signal: options.signal ?? new AbortController().signal,
      };
      return runVerifier(execution, options.interpreter);
    },
    [Symbol.dispose]: () => rmSync(directory, { recursive: true, force: true }),
  };
}
