import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';

const installed = fileURLToPath(
  new URL('../../node_modules/.cache/fleet-python/bin/python', import.meta.url),
);
const python = process.env['ROLLPOOL_FLEET_PYTHON'] ?? installed;
const script = fileURLToPath(new URL('./fleet_python_client.py', import.meta.url));

/** Why the tests with the vendor's SDK are skipped, or null. */
export const noFleetPython = existsSync(python)
  ? null
  : (process.env['ROLLPOOL_FLEET_PYTHON_MISSING'] ??
    'the Python package fleet-python is not there; scripts/test installs it where it can');

/** The vendor's SDK in a process of its own. */
export interface FleetPython extends AsyncDisposable {
  /** One of the requests of fleet_python_client.py; rejects with what the SDK raised. */
  // eslint-disable-next-line @typescript-eslint/no-explicit-any
  ask(what: string, fields: Record<string, unknown>): Promise<any>;
}

export function startFleetPython(url: string, key: string): FleetPython {
  const { FLEET_API_KEY: _key, FLEET_BASE_URL: _url, ...environment } = process.env;
  const child = spawn(python, ['-I', script, url, key], {
    env: environment,
    stdio: ['pipe', 'pipe', 'pipe'],
  });
  const closed = once(child, 'close');
  let stderr = '';
  child.stderr.on('data', (chunk: Buffer) => (stderr = (stderr + chunk.toString()).slice(-4000)));
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  return {
    ask: async (what, fields) => {
      child.stdin.write(`${JSON.stringify({ do: what, ...fields })}\n`);
      const line = await lines.next();
      if (line.done) throw new Error(`the SDK's process ended: ${stderr}`);
      const said = JSON.parse(line.value) as { answer?: unknown; failed?: string };
      if (said.failed !== undefined) throw new Error(said.failed);
      return said.answer;
    },
    [Symbol.asyncDispose]: async () => {
      child.stdin.end();
      await closed;
    },
  };
}
