import { parse, stringify, type TomlTable } from 'smol-toml';
import { plainGitConfig } from './git-config.ts';

/** What could lead a verifier's pytest or git, as it was found: path below the working directory -> bytes; null: too large, or no regular file (a link, a pipe). */
export type LeadingFiles = ReadonlyMap<string, Uint8Array | null>;

/** What is to become of it before the verifier runs. */
export interface Restored {
  /** Paths that must not exist. */
  readonly remove: readonly string[];
  readonly write: Readonly<Record<string, Uint8Array>>;
}

type Kind = 'settings' | 'module' | 'toml' | 'ini' | 'git';

function kindOf(path: string): Kind {
  if (/(^|\/)pyproject\.toml$/.test(path)) return 'toml';
  if (/(^|\/)(setup\.cfg|tox\.ini)$/.test(path)) return 'ini';
  if (/(^|\/)\.git\/config(\.worktree)?$/.test(path)) return 'git';
  if (/(^|\/)(pytest\.py|(pytest|_pytest|pluggy)(\/__init__\.py)?)$/.test(path)) return 'module';
  return 'settings';
}

/** A module that stands for a package goes with it. */
function whole(path: string): string {
  return path.replace(/\/__init__\.py$/, '');
}

function text(bytes: Uint8Array): string {
  return Buffer.from(bytes).toString('utf8');
}

function table(value: unknown): TomlTable | null {
  return typeof value === 'object' && value !== null && !Array.isArray(value) && !(value instanceof Date)
    ? (value as TomlTable)
    : null;
}

/** A pyproject.toml with the part of pytest that it had; null when it is none. */
function withPytestTable(now: string, before: string | null): string | null {
  try {
    const document = parse(now);
    const pytest = before === null ? undefined : table(parse(before)['tool'])?.['pytest'];
    const tool = table(document['tool']);
    if (JSON.stringify(tool?.['pytest']) === JSON.stringify(pytest)) return now;
    const { pytest: _planted, ...others } = tool ?? {};
    return stringify({ ...document, tool: pytest === undefined ? others : { ...others, pytest } });
  } catch {
    return null;
  }
}

/** The lines of pytest's sections, and the others. */
function splitSections(ini: string): { readonly pytest: string; readonly others: string } {
  const lines = { pytest: [] as string[], others: [] as string[] };
  let at: 'pytest' | 'others' = 'others';
  for (const line of ini.split('\n')) {
    if (line.startsWith('[')) at = /^\[[^\]]*pytest/.test(line) ? 'pytest' : 'others';
    lines[at].push(line);
  }
  return { pytest: lines.pytest.join('\n').trim(), others: lines.others.join('\n') };
}

function withPytestSection(now: string, before: string | null): string {
  const current = splitSections(now);
  const original = before === null ? '' : splitSections(before).pytest;
  return current.pytest === original ? now : `${current.others.trimEnd()}\n\n${original}\n`;
}

/** The bytes a file should have; null: it should not be there. */
function settled(
  path: string,
  now: Uint8Array | null,
  before: Uint8Array | null | undefined,
): Uint8Array | null {
  const original = before ?? null;
  const old = original === null ? null : text(original);
  const keep = (content: string | null): Uint8Array | null =>
    content === null ? original : Buffer.from(content);
  switch (kindOf(path)) {
    case 'toml':
      return now === null ? original : keep(withPytestTable(text(now), old));
    case 'ini':
      return now === null ? original : keep(withPytestSection(text(now), old));
    case 'git':
      return now === null ? original : keep(plainGitConfig(text(now)));
    // What is worked on may be pytest itself.
    case 'module':
      return before === undefined ? null : now;
    case 'settings':
      return original;
  }
}

function same(a: Uint8Array | null | undefined, b: Uint8Array | null | undefined): boolean {
  if (a === undefined || b === undefined || a === null || b === null) return a === b;
  return Buffer.compare(a, b) === 0;
}

function isPlain(path: string): boolean {
  return !/[\x00-\x1f\x7f]/.test(path);
}

/**
 * What to change so that only what was there before the agent leads the verifier: settings of pytest, its plugins and
 * stand-ins for it that are new go, changed and removed ones come back; of a file with other uses (pyproject.toml,
 * setup.cfg, tox.ini, .git/config) only that part. `spared` are paths the task itself wants from the agent, and those the
 * verifier brings anyway.
 */
export function restoreLeadingFiles(
  before: LeadingFiles,
  now: LeadingFiles,
  spared: ReadonlySet<string>,
): Restored {
  const remove: string[] = [];
  const write: Record<string, Uint8Array> = {};
  for (const [path, bytes] of now) {
    const original = before.get(path);
    if (spared.has(path) || same(bytes, original)) continue;
    // What was too large to be read before is not known, and left alone.
    if (original === null) continue;
    const wanted = settled(path, bytes, original);
    // No sandbox takes a file by such a name, and no task has one: what cannot be set right goes.
    if (wanted === null || (!same(wanted, bytes) && !isPlain(path))) remove.push(whole(path));
    else if (!same(wanted, bytes)) write[path] = wanted;
  }
  for (const [path, bytes] of before) {
    if (
      !now.has(path) &&
      !spared.has(path) &&
      bytes !== null &&
      kindOf(path) === 'settings' &&
      isPlain(path)
    ) {
      write[path] = bytes;
    }
  }
  return { remove, write };
}
