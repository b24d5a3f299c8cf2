import { infraFailure, reasonOf, taskFailure } from '../sandbox-failure.ts';
import type { TunnelHost } from './contract.ts';
import { relaySource } from './relay-source.ts';

/** Exit codes of the script below and of relay.py. */
const noPython = 93;
const oldPython = 94;

// The directory is root's alone, so that nobody else opens the control socket in it or puts another relay in its place.
// -I -S: no module, start-up file or variable of the image's is heeded.
const script = `
set -u
command -v python3 >/dev/null || exit ${noPython}
mkdir -p -- "\${1%/*}" || exit
mkdir -m 0700 -- "$1" 2>/dev/null
[[ -d $1 && ! -L $1 && -O $1 ]] && chmod 0700 -- "$1" || { echo "$1 is not a directory of root's" >&2; exit 1; }
umask 077
cat >"$1/relay.py.$$" && mv -f -- "$1/relay.py.$$" "$1/relay.py" || exit
exec python3 -I -S "$1/relay.py" daemon "$1" "$2"
`;

export interface RelayPlace {
  readonly host: TunnelHost;
  readonly directory: string;
  readonly lingerSeconds: number;
}

/**
 * Brings the relay into a sandbox and starts it, unless one runs there already. Rejects with class task (`no_python`) or
 * infra.
 */
export async function startRelay(place: RelayPlace, timeoutMs: number, signal: AbortSignal): Promise<void> {
  const found = await place.host.exec(
    ['bash', '-c', script, 'rollpool-relay', place.directory, String(place.lingerSeconds)],
    {
      user: 'root',
      cwd: '/',
      stdin: relaySource(),
      timeout_ms: Math.max(1, timeoutMs),
      max_output_bytes: 4096,
      signal,
    },
  );
  if (found.exit_code === 0) return;
  if (found.exit_code === noPython || found.exit_code === oldPython) {
    throw taskFailure(
      'no_python',
      `sandbox.image: it has no python3${found.exit_code === oldPython ? ' of 3.8 or newer' : ''}, which the tunnel to the gateway needs`,
    );
  }
  throw infraFailure(
    'tunnel_failed',
    `the tunnel's relay did not start in the sandbox: ${
      found.timed_out
        ? `not within ${timeoutMs} ms`
        : reasonOf(found.stderr || `exit code ${String(found.exit_code)}`)
    }`,
    { phase: 'boot' },
  );
}

/** The command that hands its stdin and stdout to the relay; `marker` comes before the first frame in both directions. */
export function attachCommand(directory: string, marker: string): readonly string[] {
  return ['python3', '-I', '-S', `${directory}/relay.py`, 'attach', directory, marker];
}

/** Exit code of `attach` where no relay runs. */
export const noRelay = 3;
