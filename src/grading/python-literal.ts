/** A literal as JavaScript holds it: lists, tuples and sets are arrays, dicts are maps, bytes are strings. */
export type PythonValue =
  string | number | boolean | null | readonly PythonValue[] | ReadonlyMap<PythonValue, PythonValue>;

/** A text that is no literal; `at` counts characters from 0. */
export class PythonLiteralError extends Error {
  readonly at: number;
  constructor(message: string, at: number) {
    super(`${message} at character ${at}`);
    this.name = 'PythonLiteralError';
    this.at = at;
  }
}

/** Deeper than any check list, shallow enough for the stack. */
const maxDepth = 64;
const number = /[+-]?(?:\d+(?:_\d+)*\.?\d*|\.\d+)(?:[eE][+-]?\d+)?/y;
const word = /[A-Za-z_]+/y;
const words: ReadonlyMap<string, PythonValue> = new Map<string, PythonValue>([
  ['True', true],
  ['False', false],
  ['None', null],
  ['nan', NaN],
  ['inf', Infinity],
  // The same lists are printed as JSON by judges.
  ['true', true],
  ['false', false],
  ['null', null],
  ['NaN', NaN],
  ['Infinity', Infinity],
]);
const plainEscapes: Readonly<Record<string, string>> = {
  '\\': '\\',
  "'": "'",
  '"': '"',
  '\n': '',
  n: '\n',
  r: '\r',
  t: '\t',
  a: '\x07',
  b: '\b',
  f: '\f',
  v: '\v',
};
const hexDigits: Readonly<Record<string, number>> = { x: 2, u: 4, U: 8 };

/**
 * Reads what Python's `repr` prints for a value of strings, numbers, booleans, None and containers of them; JSON as well.
 * Nothing is evaluated. Throws PythonLiteralError for everything else: names, calls, f-strings, text after the value.
 */
export function parsePythonLiteral(text: string): PythonValue {
  let at = 0;
  const fail = (what: string): never => {
    throw new PythonLiteralError(what, at);
  };
  const skip = (): void => {
    while (/\s/.test(text.charAt(at))) at += 1;
  };
  const take = (pattern: RegExp): string | null => {
    pattern.lastIndex = at;
    const found = pattern.exec(text);
    if (found === null) return null;
    at += found[0].length;
    return found[0];
  };

  const escape = (): string => {
    const kind = text.charAt(at);
    const plain = plainEscapes[kind];
    if (plain !== undefined) {
      at += 1;
      return plain;
    }
    const digits = hexDigits[kind];
    if (digits !== undefined) {
      const hex = text.slice(at + 1, at + 1 + digits);
      if (hex.length !== digits || !/^[0-9a-fA-F]+$/.test(hex)) fail('a broken escape');
      const code = Number.parseInt(hex, 16);
      if (code > 0x10ffff) fail('an escape beyond Unicode');
      at += 1 + digits;
      return String.fromCodePoint(code);
    }
    const octal = take(/[0-7]{1,3}/y);
    if (octal !== null) return String.fromCodePoint(Number.parseInt(octal, 8));
    // Python keeps the backslash of an escape it does not know.
    return '\\';
  };

  const string = (): string => {
    const quote = text.charAt(at);
    at += 1;
    let value = '';
    for (;;) {
      const char = text.charAt(at);
      if (char === '' || char === '\n') fail('a string that does not end');
      at += 1;
      if (char === quote) return value;
      value += char === '\\' ? escape() : char;
    }
  };

  const items = <T>(close: string, one: () => T): { found: T[]; commas: number } => {
    const found: T[] = [];
    let commas = 0;
    at += 1;
    for (;;) {
      skip();
      if (text.charAt(at) === close) {
        at += 1;
        return { found, commas };
      }
      if (commas < found.length) fail(`no comma or ${close}`);
      found.push(one());
      skip();
      if (text.charAt(at) === ',') {
        commas += 1;
        at += 1;
      }
    }
  };

  const braces = (depth: number): PythonValue => {
    let pairs = 0;
    const { found } = items('}', () => {
      const key = value(depth);
      skip();
      if (text.charAt(at) !== ':') return [key, null] as const;
      at += 1;
      pairs += 1;
      return [key, value(depth)] as const;
    });
    if (pairs === found.length) return new Map(found);
    return pairs === 0 ? found.map(([key]) => key) : fail('a dict with an item that is no pair');
  };

  const value = (depth: number): PythonValue => {
    if (depth > maxDepth) fail('nested too deep');
    skip();
    const char = text.charAt(at);
    if (char === '[') return items(']', () => value(depth + 1)).found;
    if (char === '{') return braces(depth + 1);
    if (char === '(') {
      const { found, commas } = items(')', () => value(depth + 1));
      // One value in parentheses is that value.
      return found.length === 1 && commas === 0 ? found[0]! : found;
    }
    if (char === "'" || char === '"') return string();
    if (/[bu]/i.test(char) && /['"]/.test(text.charAt(at + 1))) {
      at += 1;
      return string();
    }
    const digits = take(number);
    if (digits !== null) return Number(digits.replaceAll('_', ''));
    const negative = char === '-';
    if (negative) at += 1;
    const name = take(word) ?? fail(char === '' ? 'nothing' : `an unexpected ${JSON.stringify(char)}`);
    const known = words.get(name);
    if (known === undefined || (negative && typeof known !== 'number')) fail(`the name ${name.slice(0, 40)}`);
    return negative ? -(known as number) : known!;
  };

  const result = value(0);
  skip();
  if (at < text.length) fail('more text');
  return result;
}
