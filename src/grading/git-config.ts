/** Settings of a repository that name no program, no other file and no other place. Names in lower case. */
const core = new Set([
  'repositoryformatversion',
  'filemode',
  'bare',
  'logallrefupdates',
  'ignorecase',
  'precomposeunicode',
  'symlinks',
  'autocrlf',
  'eol',
  'abbrev',
  'quotepath',
]);
const remote = new Set(['url', 'fetch', 'push', 'tagopt', 'mirror']);
const allowed: Readonly<Record<string, ReadonlySet<string> | 'all'>> = {
  core,
  remote,
  extensions: new Set(['objectformat', 'refstorage', 'partialclone']),
  branch: 'all',
  user: 'all',
  author: 'all',
  committer: 'all',
  init: new Set(['defaultbranch']),
  pull: 'all',
  push: 'all',
  color: 'all',
};

/**
 * A repository's config without what makes git run programs (filters, drivers, hooks, aliases, pagers), read other files
 * or work elsewhere: the lines of known harmless settings. What it cannot read goes.
 */
export function plainGitConfig(config: string): string {
  const kept: string[] = [];
  let section: string | null = null;
  let continued = false;
  for (const line of config.split('\n')) {
    const wasContinued = continued;
    continued = /(^|[^\\])(\\\\)*\\$/.test(line);
    if (wasContinued || continued) continue;
    const head = /^\s*\[\s*([A-Za-z0-9-]+)(?:\s+"(?:[^"\\]|\\.)*")?\s*\]\s*$/.exec(line);
    if (head !== null) {
      section = head[1]!.toLowerCase();
      if (Object.hasOwn(allowed, section)) kept.push(line);
      else section = null;
      continue;
    }
    // A header with a setting behind it, or one in the old form: no `git config` writes it.
    if (/^\s*\[/.test(line)) {
      section = null;
      continue;
    }
    const name = /^\s*([A-Za-z][A-Za-z0-9-]*)\s*(?:=|$)/.exec(line)?.[1]?.toLowerCase();
    const known = section === null ? undefined : allowed[section];
    if (name !== undefined && known !== undefined && (known === 'all' || known.has(name))) kept.push(line);
  }
  return `${kept.join('\n')}\n`;
}
