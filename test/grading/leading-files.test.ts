import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { plainGitConfig } from '../../src/grading/git-config.ts';
import { restoreLeadingFiles, type LeadingFiles } from '../../src/grading/leading-files.ts';

function found(files: Readonly<Record<string, string | null>>): LeadingFiles {
  return new Map(
    Object.entries(files).map(([path, text]) => [path, text === null ? null : Buffer.from(text)]),
  );
}

/** What is removed, and what is written as text. */
function restored(
  before: Readonly<Record<string, string | null>>,
  now: Readonly<Record<string, string | null>>,
  spared: readonly string[] = [],
): { remove: readonly string[]; write: Record<string, string> } {
  const { remove, write } = restoreLeadingFiles(found(before), found(now), new Set(spared));
  const texts = Object.entries(write).map(([path, bytes]) => [path, Buffer.from(bytes).toString()]);
  return { remove, write: Object.fromEntries(texts) as Record<string, string> };
}

describe('files that lead a verifier', () => {
  it('go when they are new, links too, and come back when they were changed or removed', () => {
    expect(
      restored(
        {
          'conftest.py': 'a',
          'tests/conftest.py': 'b',
          'pytest.ini': 'c',
          'x.egg-info/entry_points.txt': 'd',
        },
        {
          'conftest.py': 'a',
          'tests/conftest.py': 'planted',
          'x.egg-info/entry_points.txt': 'e',
          'y/conftest.py': null,
          '.git': null,
        },
      ),
    ).toEqual({
      remove: ['y/conftest.py', '.git'],
      write: { 'tests/conftest.py': 'b', 'x.egg-info/entry_points.txt': 'd', 'pytest.ini': 'c' },
    });
  });

  it('stay where the task names them, and where it is not known how they were', () => {
    const now = { 'conftest.py': 'mine', 'big/conftest.py': 'mine' };
    expect(restored({ 'big/conftest.py': null }, now, ['conftest.py'])).toEqual({ remove: [], write: {} });
  });

  it('go with their package when they stand for pytest, unless that is what is worked on', () => {
    const now = {
      'pytest/__init__.py': 'x',
      'src/pytest/__init__.py': 'new',
      'a/pytest.py': 'x',
      _pytest: null,
    };
    expect(restored({ 'src/pytest/__init__.py': 'old' }, now)).toEqual({
      remove: ['pytest', 'a/pytest.py', '_pytest'],
      write: {},
    });
  });

  it('lose only their part for pytest where they have other uses', () => {
    const toml = '[project]\nname = "x"\n';
    const planted = `${toml}\n[tool.pytest.ini_options]\naddopts = "-p evil"\n`;
    expect(restored({}, { 'pyproject.toml': toml }).write).toEqual({});
    const { write } = restored({}, { 'pyproject.toml': planted });
    expect(write['pyproject.toml']).toContain('name = "x"');
    expect(write['pyproject.toml']).not.toMatch(/pytest|evil/);
    const own = `${toml}[tool.pytest.ini_options]\naddopts = "-q"\n`;
    expect(
      restored({ 'pyproject.toml': own }, { 'pyproject.toml': planted }).write['pyproject.toml'],
    ).toContain('"-q"');
    expect(restored({ 'pyproject.toml': own }, { 'pyproject.toml': 'no toml' }).write).toEqual({
      'pyproject.toml': own,
    });

    expect(
      restored({}, { 'setup.cfg': '[metadata]\nname = x\n[tool:pytest]\naddopts = -p evil\n[x]\ny = 1\n' })
        .write,
    ).toEqual({
      'setup.cfg': '[metadata]\nname = x\n[x]\ny = 1\n\n\n',
    });
    expect(
      restored({ 'tox.ini': '[pytest]\na = 1\n' }, { 'tox.ini': '[tox]\nx = 1\n[pytest]\na = 2\n' }).write[
        'tox.ini'
      ],
    ).toBe('[tox]\nx = 1\n\n[pytest]\na = 1\n');
  });

  it('need nothing once they were put back', () => {
    const path = fc.constantFrom(
      'conftest.py',
      'a/pytest.ini',
      'setup.cfg',
      'tox.ini',
      'pyproject.toml',
      '.git/config',
    );
    const text = fc.constantFrom(
      '',
      '[pytest]\na = 1\n',
      '[x]\ny = 1\n[tool:pytest]\nb = 2',
      '[tool.pytest]\nz = 1\n',
      '[core]\n\tbare = false\n\tpager = x\n',
    );
    const tree = fc.dictionary(path, text);
    fc.assert(
      fc.property(tree, tree, (before, now) => {
        const { remove, write } = restored(before, now);
        const after: Record<string, string> = { ...now, ...write };
        for (const gone of remove) delete after[gone];
        const again = restored(before, after);
        expect(again.remove).toEqual([]);
        expect(again.write).toEqual({});
      }),
    );
  });
});

describe('a repository’s config', () => {
  it('keeps what names no program, file or place', () => {
    const harmless =
      '[core]\n\trepositoryformatversion = 0\n\tbare = false\n[remote "origin"]\n\turl = https://a.b/c\n\tfetch = +refs/heads/*:refs/remotes/origin/*\n[branch "main"]\n\tremote = origin\n[user]\n\tname = Me # here\n';
    expect(plainGitConfig(harmless).trim()).toBe(harmless.trim());
  });

  it.each([
    '[core]\n\tpager = evil',
    '[core]\n\tfsmonitor = evil\n\thooksPath = evil',
    '[CORE]\n\tsshCommand = evil\n\tworktree = evil',
    '[diff]\n\texternal = evil',
    '[filter "evil"]\n\tclean = x',
    '[alias]\n\tst = !evil',
    '[include]\n\tpath = evil',
    '[includeIf "gitdir:evil"]\n\tpath = x',
    '[user]\n\tname = \\\nevil',
    '[user] [core] pager = evil',
    '[remote "o"]\n\tuploadpack = evil\n\tvcs = evil',
    '[core] pager = evil',
    '[credential]\n\thelper = evil',
    '[extensions]\n\tworktreeConfig = evil',
  ])('loses %j', (config) => {
    expect(plainGitConfig(config)).not.toContain('evil');
  });
});
