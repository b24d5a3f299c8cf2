import { once } from 'node:events';
import { posix } from 'node:path';
import { extract } from 'tar-stream';
import { infraFailure, taskFailure } from './sandbox-failure.ts';
import type { CollectBounds, CollectedFile, Sandbox } from './sandbox.ts';

/**
 * Prints the regular files below the working directory's paths: size, then path relative to it, NUL-terminated, and no
 * more than a number of bytes. A path that leads through a link is left out, and `find` follows none. Standard input:
 * NUL-terminated paths. Arguments: the working directory, the number.
 */
const listScript = `
cd -P -- "$1" || exit 1
while IFS= read -r -d '' path; do
  rest=$path
  at=.
  while :; do
    at=$at/\${rest%%/*}
    [ -L "$at" ] && continue 2
    [ "$rest" = "\${rest#*/}" ] && break
    rest=\${rest#*/}
  done
  [ -e "$at" ] || continue
  find "$at" -xdev -type f -printf '%s %p\\0'
done | head -c "$2"
`;

/** The kernel opens no longer path. */
const maxPathBytes = 4_000;

/** Whether `tar` finds a file again by what was read of its name: not where that is no UTF-8, or longer than any path. */
function canBeNamed(path: string): boolean {
  return !path.includes('\ufffd') && Buffer.byteLength(path) < maxPathBytes;
}

interface Listed {
  readonly size: number;
  readonly path: string;
}

async function list(sandbox: Sandbox, paths: readonly string[], bounds: CollectBounds): Promise<Listed[]> {
  const listBytes = 512 * bounds.max_files;
  const found = await sandbox.exec(
    ['bash', '--noprofile', '--norc', '-c', listScript, 'bash', sandbox.workdir, String(listBytes + 1)],
    {
      cwd: '/',
      stdin: paths.map((path) => `${posix.normalize(path)}\0`).join(''),
      timeout_ms: bounds.timeout_ms,
      max_output_bytes: listBytes,
    },
  );
  if (found.exit_code !== 0) {
    const why = found.timed_out ? `took longer than ${bounds.timeout_ms / 1000} s` : found.stderr.slice(-500);
    throw infraFailure('collect_failed', `looking for files to take out failed: ${why}`, { phase: 'grade' });
  }
  const items = found.stdout.split('\0').slice(0, -1);
  if (found.stdout_bytes > Buffer.byteLength(found.stdout) || items.length > bounds.max_files) {
    throw taskFailure('artifacts_too_large', `there are more than ${bounds.max_files} files to take out`, {
      phase: 'grade',
    });
  }
  const files = new Map<string, Listed>();
  for (const item of items) {
    const at = item.indexOf(' ');
    const path = posix.normalize(item.slice(at + 1));
    if (canBeNamed(path)) files.set(path, { size: Number(item.slice(0, at)), path });
  }
  return [...files.values()];
}

/** Takes files out through the sandbox's own `find` and `tar`, as root. For every provider; see `Sandbox.collect`. */
export async function collectFiles(
  sandbox: Sandbox,
  paths: readonly string[],
  bounds: CollectBounds,
): Promise<readonly CollectedFile[]> {
  const listed = await list(sandbox, paths, bounds);
  const total = listed.reduce((sum, { size }) => sum + size, 0);
  if (total > bounds.max_bytes) {
    throw taskFailure(
      'artifacts_too_large',
      `the files to take out have ${total} bytes, more than ${bounds.max_bytes}`,
      { phase: 'grade' },
    );
  }
  if (listed.length === 0) return [];

  const signal = AbortSignal.timeout(bounds.timeout_ms);
  await using packing = await sandbox.spawn(
    ['tar', '-C', sandbox.workdir, '--null', '--no-recursion', '-T', '-', '-cf', '-'],
    { cwd: '/', signal },
  );
  packing.stdin.on('error', () => undefined);
  packing.stderr.resume();
  packing.stdin.end(listed.map(({ path }) => `./${path}\0`).join(''));
  const files = new Map<string, CollectedFile>();
  const archive = packing.stdout.pipe(extract());
  let kept = 0;
  for await (const entry of archive) {
    const { header } = entry;
    const path = posix.normalize(header.name);
    if (header.type === 'link') {
      // A second name of a file that came before.
      const first = files.get(posix.normalize(header.linkname ?? ''));
      if (first !== undefined) files.set(path, { ...first, path });
      entry.resume();
      continue;
    }
    const chunks: Buffer[] = [];
    for await (const chunk of entry) {
      kept += (chunk as Buffer).length;
      if (kept > bounds.max_bytes) {
        throw taskFailure(
          'artifacts_too_large',
          `the files to take out grew past ${bounds.max_bytes} bytes`,
          {
            phase: 'grade',
          },
        );
      }
      chunks.push(chunk as Buffer);
    }
    if (header.type === 'file') {
      files.set(path, {
        path,
        bytes: Buffer.concat(chunks),
        executable: ((header.mode ?? 0) & 0o111) !== 0,
      });
    }
  }
  if (!packing.stdout.readableEnded) await once(packing.stdout, 'close');
  const code = await packing.exited;
  if (code !== 0) {
    throw infraFailure('collect_failed', `packing the files to take out ended with ${String(code)}`, {
      phase: 'grade',
    });
  }
  return [...files.values()];
}
