/** A part of Python source. White space, comments and the line ends inside of brackets are left out. */
export interface PythonToken {
  readonly kind: 'name' | 'string' | 'other' | 'line_end';
  readonly text: string;
  /** Index of its first character in the source. */
  readonly at: number;
  /** Column of the first token of a statement, a tab counted as one; null for all others. */
  readonly indent: number | null;
}

/** Source that no Python would read. */
export class UnclosedStringError extends Error {
  /** Index where the string, or the replacement field in it, begins. */
  readonly at: number;

  constructor(at: number) {
    super('a string is never closed');
    this.name = 'UnclosedStringError';
    this.at = at;
  }
}

const lineEnd = /\r\n|\n|\r/y;
const name = /[\p{ID_Start}_]\p{ID_Continue}*/uy;
const number = /\d[\w.]*/y;
const stringPrefix = /^(?:[rbuft]|br|rb|fr|rf|tr|rt)$/i;

function match(pattern: RegExp, source: string, at: number): string | null {
  pattern.lastIndex = at;
  return pattern.exec(source)?.[0] ?? null;
}

function isQuote(source: string, at: number): boolean {
  return source[at] === '"' || source[at] === "'";
}

function commentEnd(source: string, at: number): number {
  let end = at;
  while (end < source.length && source[end] !== '\n' && source[end] !== '\r') end += 1;
  return end;
}

/** Index behind the `}` of a replacement field whose `{` is before `at`. Its strings may use any quotes (Python 3.12). */
function fieldEnd(source: string, at: number): number {
  let depth = 0;
  // What follows a colon is text again, in which quotes mean nothing: `{x:'>10}`.
  let inFormat = false;
  for (let i = at; i < source.length;) {
    const char = source[i]!;
    const prefix = inFormat ? null : match(name, source, i);
    if (prefix !== null) {
      i += prefix.length;
      if (isQuote(source, i) && stringPrefix.test(prefix)) i = stringEnd(source, i, prefix);
    } else if (!inFormat && isQuote(source, i)) i = stringEnd(source, i, '');
    else if (!inFormat && char === '#') i = commentEnd(source, i);
    else if (depth === 0 && char === '}') return i + 1;
    else if (inFormat && char === '{') i = fieldEnd(source, i + 1);
    else {
      if (!inFormat) {
        if ('([{'.includes(char)) depth += 1;
        else if (')]}'.includes(char)) depth -= 1;
        else if (char === ':' && depth === 0) inFormat = true;
      }
      i += 1;
    }
  }
  throw new UnclosedStringError(at);
}

/** Index behind a string whose opening quote is at `at`. */
function stringEnd(source: string, at: number, prefix: string): number {
  const one = source[at]!;
  const quotes = source.startsWith(one.repeat(3), at) ? one.repeat(3) : one;
  const hasFields = /[ft]/i.test(prefix);
  for (let i = at + quotes.length; i < source.length;) {
    const char = source[i]!;
    if (source.startsWith(quotes, i)) return i + quotes.length;
    if (hasFields && char === '{') i = source[i + 1] === '{' ? i + 2 : fieldEnd(source, i + 1);
    else if (char === '\\') {
      // Also in a raw string a quote behind a backslash does not close it.
      const next = source[i + 1];
      i += next === '\r' && source[i + 2] === '\n' ? 3 : hasFields && next === '{' ? 1 : 2;
    } else if (quotes.length === 1 && (char === '\n' || char === '\r')) break;
    else i += 1;
  }
  throw new UnclosedStringError(at);
}

/**
 * The tokens of Python source, as far as they are asked for; throws UnclosedStringError. Brackets, strings and comments are told apart as Python
 * does; whether the statements make sense is not looked at.
 */
export function* pythonTokens(source: string): Generator<PythonToken, void, void> {
  let depth = 0;
  let indent: number | null = 0;
  for (let i = source.startsWith('\uFEFF') ? 1 : 0; i < source.length;) {
    const char = source[i]!;
    const end = match(lineEnd, source, i);
    if (end !== null) {
      if (depth === 0) {
        if (indent === null) yield { kind: 'line_end', text: end, at: i, indent: null };
        indent = 0;
      }
      i += end.length;
    } else if (char === ' ' || char === '\t' || char === '\f') {
      // A form feed begins the column anew.
      if (indent !== null) indent = char === '\f' ? 0 : indent + 1;
      i += 1;
    } else if (char === '#') i = commentEnd(source, i);
    else if (char === '\\') i += 1 + (match(lineEnd, source, i + 1)?.length ?? 0);
    else {
      const at = i;
      const word = match(name, source, i);
      let kind: PythonToken['kind'] = 'other';
      if (word !== null) {
        kind = 'name';
        i += word.length;
      }
      if (isQuote(source, i) && (word === null || stringPrefix.test(word))) {
        kind = 'string';
        i = stringEnd(source, i, word ?? '');
      } else if (word === null) {
        i += match(number, source, i)?.length ?? 1;
        if ('([{'.includes(char)) depth += 1;
        else if (')]}'.includes(char)) depth = Math.max(0, depth - 1);
      }
      yield { kind, text: source.slice(at, i), at, indent };
      indent = null;
    }
  }
}
