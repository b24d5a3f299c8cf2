import { execa } from 'execa';

/** The interpreter that runs verifiers. */
export interface Python {
  /** The interpreter itself: `python3` on the PATH may be a shim that takes longer to start than a verifier to run. */
  readonly executable: string;
  /** Such as `3.11.7`. */
  readonly version: string;
  /** Directories of installed packages, which a verifier may import from. */
  readonly packages: readonly string[];
}

const question = `
import json, sys, site
import sqlite3, zlib
json.dump({"executable": sys.executable, "version": "%d.%d.%d" % sys.version_info[:3], "packages": site.getsitepackages()}, sys.stdout)
`;

/**
 * Finds `python3` (3.10 or newer, with sqlite3). Rejects with one clear line when there is none that can run verifiers.
 * Takes up to 20 s on a machine that is very busy.
 */
export async function probePython(signal?: AbortSignal): Promise<Python> {
  const run = await execa('python3', ['-I', '-c', question], {
    reject: false,
    timeout: 20_000,
    stdin: 'ignore',
    ...(signal && { cancelSignal: signal }),
  });
  signal?.throwIfAborted();
  if (run.code === 'ENOENT') {
    throw new Error('local Fleet runs verifiers with python3 (3.10 or newer), and there is none on the PATH');
  }
  if (run.failed) {
    const why = run.stderr.trim().split('\n').at(-1) || run.shortMessage;
    throw new Error(`local Fleet runs verifiers with python3, and it does not work here: ${why}`);
  }
  const python = JSON.parse(run.stdout) as Python;
  const [major = 0, minor = 0] = python.version.split('.').map(Number);
  if (major < 3 || (major === 3 && minor < 10)) {
    throw new Error(`local Fleet runs verifiers with python3 3.10 or newer, this is ${python.version}`);
  }
  return python;
}

let found: Promise<Python> | undefined;

/** The same, asked once a process; a failure is asked again. */
export function python(): Promise<Python> {
  found ??= probePython().catch((error: unknown) => {
    found = undefined;
    throw error;
  });
  return found;
}
