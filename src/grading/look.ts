import { readFileSync } from 'node:fs';
import { posix } from 'node:path';
import type { FileContent, Verify } from '../contracts/index.ts';
import type { Sandbox } from '../sandbox/sandbox.ts';
import type { LeadingFiles } from './leading-files.ts';
import { innerShell } from './prepare.ts';

const script = readFileSync(new URL('./look.sh', import.meta.url), 'utf8');
const lookMs = 60_000;
const maxOutput = 32 * 2 ** 20;

function textOf(content: FileContent): string {
  return typeof content === 'string' ? content : Buffer.from(content.base64, 'base64').toString('latin1');
}

/** What a verifier runs that files in the working directory can lead elsewhere. */
function programs(verify: Verify): string[] {
  const all = [...verify.commands, ...Object.values(verify.files).map(textOf)].join('\n');
  return [
    ...(/pytest|py\.test/.test(all) ? ['pytest'] : []),
    ...(/(^|[^\w.])git(?![\w-])/m.test(all) ? ['git'] : []),
  ];
}

/**
 * Finds what could lead the verifier's pytest or git; null where it runs neither, and where that cannot be looked at in time
 * (a tree that is too large to be walked).
 */
export async function lookForLeadingFiles(
  sandbox: Sandbox,
  verify: Verify,
  signal: AbortSignal,
): Promise<LeadingFiles | null> {
  const names = programs(verify);
  if (names.length === 0) return null;
  const found = await sandbox.exec(
    ['bash', '--noprofile', '--norc', '-c', script, 'bash', sandbox.workdir, ...names],
    { user: 'root', cwd: '/', env: innerShell, timeout_ms: lookMs, max_output_bytes: maxOutput, signal },
  );
  if (found.exit_code !== 0 || found.stdout_bytes > maxOutput) return null;
  const items = found.stdout.split('\0');
  const files = new Map<string, Uint8Array | null>();
  for (let at = 0; at + 1 < items.length; at += 2) {
    const content = items[at + 1]!;
    files.set(posix.normalize(items[at]!), content === '-' ? null : Buffer.from(content, 'base64'));
  }
  return files;
}
