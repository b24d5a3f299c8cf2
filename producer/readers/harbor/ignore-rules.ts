import { posix } from 'node:path';

interface Rule {
  readonly pattern: RegExp;
  /** `!pattern`: takes what earlier rules left out. */
  readonly takes: boolean;
}

/** A pattern of a .dockerignore file; null for one that cannot be one. Source: Go's filepath.Match and `**`. */
function patternOf(pattern: string): RegExp | null {
  let source = '';
  for (let at = 0; at < pattern.length; at += 1) {
    const char = pattern[at]!;
    if (char === '*' && pattern[at + 1] === '*') {
      at += 1;
      if (pattern[at + 1] === '/') at += 1;
      source += at + 1 >= pattern.length ? '.*' : '(?:.*/)?';
    } else if (char === '*') source += '[^/]*';
    else if (char === '?') source += '[^/]';
    else if (char === '\\' && at + 1 < pattern.length) {
      at += 1;
      source += escaped(pattern[at]!);
    } else if (char === '[') {
      const end = pattern.indexOf(']', at + 2);
      if (end === -1) return null;
      source += pattern.slice(at, end + 1).replaceAll('\\', '\\\\');
      at = end;
    } else source += escaped(char);
  }
  try {
    return new RegExp(`^${source}$`, 's');
  } catch {
    return null;
  }
}

function escaped(char: string): string {
  return /[\^$\\.*+?()[\]{}|/-]/.test(char) ? `\\${char}` : char;
}

/** What the .dockerignore of a build context leaves out of it. */
export class IgnoreRules {
  readonly #rules: Rule[] = [];
  /** Lines that are no pattern. */
  readonly wrong: string[] = [];

  constructor(text: string) {
    for (const line of text.replace(/^\uFEFF/, '').split(/\r?\n/)) {
      let pattern = line.trim();
      if (pattern === '' || pattern.startsWith('#')) continue;
      const takes = pattern.startsWith('!');
      if (takes) pattern = pattern.slice(1).trim();
      const regex = patternOf(
        posix
          .normalize(pattern)
          .replace(/^\/+/, '')
          .replace(/(?<=.)\/+$/, ''),
      );
      if (regex === null || pattern === '') this.wrong.push(line.trim());
      else this.#rules.push({ pattern: regex, takes });
    }
  }

  /** Whether a path of the context is left out. The last rule that fits it, or a directory above it, decides. */
  leavesOut(path: string): boolean {
    const parts = path.split('/');
    const above = parts.map((_, index) => parts.slice(0, index + 1).join('/'));
    let out = false;
    for (const { pattern, takes } of this.#rules) {
      if (takes === out && above.some((candidate) => pattern.test(candidate))) out = !takes;
    }
    return out;
  }

  /** Whether nothing below a directory that is left out can be taken again. */
  get takesNothingBack(): boolean {
    return this.#rules.every(({ takes }) => !takes);
  }
}
