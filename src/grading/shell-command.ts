/** A simple command of a shell line, as words, and how it is tied to the one before it. */
interface Segment {
  readonly words: readonly string[];
  readonly after: '&&' | '||' | '|' | ';' | '&' | null;
}

/**
 * Splits a shell line at its operators, with quotes understood. null when the line uses something whose exit status cannot
 * be told by looking (substitutions, subshells, here-documents, compound commands).
 */
function segments(line: string): Segment[] | null {
  const found: Segment[] = [];
  let words: string[] = [];
  let word: string | null = null;
  let after: Segment['after'] = null;
  const endWord = (): void => {
    if (word !== null) words.push(word);
    word = null;
  };
  const endSegment = (operator: NonNullable<Segment['after']>): void => {
    endWord();
    if (words.length > 0) found.push({ words, after });
    words = [];
    after = operator;
  };
  for (let at = 0; at < line.length; at += 1) {
    const char = line.charAt(at);
    const next = line.charAt(at + 1);
    if (char === "'" || char === '"') {
      const close = line.indexOf(char, at + 1);
      if (close === -1) return null;
      const inside = line.slice(at + 1, close);
      if (char === '"' && /[`\\]|\$\(/.test(inside)) return null;
      word = (word ?? '') + inside;
      at = close;
    } else if (char === '\\') {
      if (next === '') return null;
      if (next !== '\n') word = (word ?? '') + next;
      at += 1;
    } else if (/[`(){}]/.test(char) || (char === '<' && next === '<')) {
      return null;
    } else if (char === '&' && next === '&') {
      endSegment('&&');
      at += 1;
    } else if (char === '|' && next === '|') {
      endSegment('||');
      at += 1;
    } else if ((char === '>' && next === '&') || (char === '&' && next === '>')) {
      // A redirection of file descriptors, not a command in the background.
      word = (word ?? '') + char + next;
      at += 1;
    } else if (char === '|' || char === ';' || char === '&' || char === '\n') {
      endSegment(char === '\n' ? ';' : char);
    } else if (char === '#' && word === null) {
      const end = line.indexOf('\n', at);
      at = (end === -1 ? line.length : end) - 1;
    } else if (/\s/.test(char)) {
      endWord();
    } else {
      word = (word ?? '') + char;
    }
  }
  endWord();
  if (words.length > 0) found.push({ words, after });
  return found;
}

const assignment = /^[A-Za-z_][A-Za-z0-9_]*=/;
const python = /^(?:.*\/)?(?:python|pypy)[0-9.]*$/;
const keywords = new Set(['if', 'for', 'while', 'until', 'case', 'function', 'select', '!', '[[']);

function basename(path: string): string {
  return path.slice(path.lastIndexOf('/') + 1);
}

/** True when these words run pytest: by name, as a module, or through the usual wrappers. */
function isPytest(words: readonly string[]): boolean {
  const left = [...words];
  for (;;) {
    const head = left.shift();
    if (head === undefined) return false;
    if (assignment.test(head)) continue;
    const name = basename(head);
    if (name === 'pytest' || name === 'py.test') return true;
    if (python.test(head)) {
      while (left[0] !== undefined && /^-[a-zA-Z]/.test(left[0]) && left[0] !== '-m' && left[0] !== '-c') {
        if (/^-[WX]$/.test(left[0])) left.shift();
        left.shift();
      }
      return left[0] === '-m' && (left[1] === 'pytest' || left[1] === 'py.test');
    }
    if (name === 'exec' || name === 'env' || name === 'command' || name === 'nice' || name === 'time') {
      while (left[0]?.startsWith('-') === true) left.shift();
      continue;
    }
    if (name === 'timeout') {
      while (left[0]?.startsWith('-') === true) {
        const option = left.shift();
        if (option === '-k' || option === '-s') left.shift();
      }
      left.shift();
      continue;
    }
    if (
      (name === 'uv' || name === 'poetry' || name === 'pdm' || name === 'hatch' || name === 'pipenv') &&
      left[0] === 'run'
    ) {
      left.shift();
      continue;
    }
    return false;
  }
}

/** Commands that fail with 1 or 2 at most, so that an exit of 3, 4 or 5 is not theirs. */
const harmless = new Set([
  'cd',
  'export',
  'set',
  'unset',
  'source',
  '.',
  'ulimit',
  'mkdir',
  'true',
  'echo',
  'test',
  '[',
  ':',
  'umask',
]);

/**
 * True when the exit status of a shell line is surely that of pytest, so that 3 (internal error), 4 (usage error) and 5
 * (no tests collected) mean that the verifier is at fault. Where another command may have set the status, false: an exit
 * of 4 is then just a failure.
 */
export function exitsAsPytest(line: string): boolean {
  const parts = segments(line);
  if (parts === null || parts.some(({ words }) => keywords.has(words[0] ?? ''))) return false;
  const stopsAtFailure = parts.some(
    ({ words }) => words[0] === 'set' && words.slice(1).some((word) => /^-[a-z]*e|^errexit$/.test(word)),
  );
  for (let at = parts.length - 1; at >= 0; at -= 1) {
    const part = parts[at];
    if (part === undefined) return false;
    const isLast = at === parts.length - 1;
    const plain = part.words.find((word) => !assignment.test(word));
    if (!isPytest(part.words) && (isLast || !(plain === undefined || harmless.has(plain)))) return false;
    if (part.after === null || (part.after === ';' && !stopsAtFailure)) return true;
    if (part.after !== '&&' && part.after !== ';') return false;
  }
  return false;
}
