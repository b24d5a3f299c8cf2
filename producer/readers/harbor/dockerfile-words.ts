/** One instruction of a Dockerfile, its lines joined. */
export interface Instruction {
  /** In capitals. */
  readonly name: string;
  readonly rest: string;
}

export interface DockerfileText {
  /** What takes the meaning from the next character and joins lines: `\` unless a directive says otherwise. */
  readonly escape: string;
  readonly instructions: readonly Instruction[];
}

const heredoc = /(?<!<)<<(-?)(["']?)([A-Za-z_][\w.]*)\2/g;

function directives(lines: readonly string[]): string {
  for (const line of lines) {
    const [, name, value] = /^\s*#\s*([A-Za-z]+)\s*=\s*(\S+)\s*$/.exec(line) ?? [];
    if (name === undefined) return '\\';
    if (name.toLowerCase() === 'escape' && value === '`') return '`';
  }
  return '\\';
}

/** The instructions of a Dockerfile: comments gone, continued lines joined, what here-documents hold left aside. */
export function dockerfileText(text: string): DockerfileText {
  const lines = text.replace(/^\uFEFF/, '').split(/\r?\n/);
  const escape = directives(lines);
  const instructions: Instruction[] = [];
  let held = '';
  for (let at = 0; at < lines.length; at += 1) {
    const line = lines[at]!;
    if (/^\s*(#|$)/.test(line)) continue;
    const trimmed = line.trimEnd();
    if (trimmed.endsWith(escape)) {
      held += `${trimmed.slice(0, -1)} `;
      if (at + 1 < lines.length) continue;
    } else held += line;
    const [, name = '', rest = ''] = /^\s*([A-Za-z]+)\s*([^]*)$/.exec(held) ?? [];
    held = '';
    if (name === '') continue;
    instructions.push({ name: name.toUpperCase(), rest: rest.trim() });
    if (!/^(RUN|COPY|ADD)$/i.test(name)) continue;
    for (const [, tabs, , end] of rest.matchAll(heredoc)) {
      const last = lines.findIndex(
        (candidate, index) =>
          index > at && (tabs === '-' ? candidate.replace(/^\t+/, '') : candidate) === end,
      );
      if (last !== -1) at = last;
    }
  }
  return { escape, instructions };
}

/** What a variable holds; undefined where nobody says. */
export type Lookup = (name: string) => string | undefined;

/** A word as Docker reads it: quotes taken off, variables put in outside of single quotes. */
export function expand(text: string, escape: string, lookup: Lookup): string {
  let result = '';
  let quote = '';
  for (let at = 0; at < text.length; at += 1) {
    const char = text[at]!;
    if (quote === "'") {
      if (char === "'") quote = '';
      else result += char;
    } else if (char === escape && at + 1 < text.length) {
      const next = text[(at += 1)]!;
      // Inside double quotes only these lose their meaning.
      result += quote === '"' && !`"$${escape}`.includes(next) ? escape + next : next;
    } else if (char === '"' || (char === "'" && quote === '')) {
      quote = quote === '"' ? '' : char;
    } else if (char === '$') {
      const [whole, plain, braced, sign, other] =
        /^\$(?:([A-Za-z_]\w*)|\{([A-Za-z_]\w*)(?:(:?[-+])((?:[^{}]|\{[^{}]*\})*))?\})/.exec(text.slice(at)) ??
        [];
      if (whole === undefined) result += char;
      else {
        const value = lookup(plain ?? braced!);
        const empty = value === undefined || (sign?.startsWith(':') === true && value === '');
        if (sign?.endsWith('-') === true && empty) result += expand(other!, escape, lookup);
        else if (sign?.endsWith('+') === true) result += empty ? '' : expand(other!, escape, lookup);
        else result += value ?? '';
        at += whole.length - 1;
      }
    } else result += char;
  }
  return result;
}
