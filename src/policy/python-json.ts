/**
 * JSON as Python's `json` module reads and writes it: engines parse historical tool arguments with it and templates
 * dump them again, so its spacing, numbers and error words are part of what a policy sees.
 */
export type PythonValue =
  null | boolean | string | PythonNumber | readonly PythonValue[] | ReadonlyMap<string, PythonValue>;

/** A number as the text Python would print: integers of any size, floats with their point. */
export class PythonNumber {
  readonly text: string;

  constructor(text: string) {
    this.text = text;
  }
}

/** Carries Python's message: `Expecting ',' delimiter: line 1 column 9 (char 8)`. */
export class PythonJsonError extends Error {
  constructor(reason: string, text: string, at: number) {
    const before = text.slice(0, at);
    const line = before.split('\n').length;
    super(`${reason}: line ${line} column ${at - before.lastIndexOf('\n')} (char ${at})`);
    this.name = 'PythonJsonError';
  }
}

const escapes: Record<string, string> = {
  '"': '"',
  '\\': '\\',
  '/': '/',
  b: '\b',
  f: '\f',
  n: '\n',
  r: '\r',
  t: '\t',
};

function floatText(value: number): string {
  if (Number.isNaN(value)) return 'NaN';
  if (!Number.isFinite(value)) return value > 0 ? 'Infinity' : '-Infinity';
  if (value === 0) return Object.is(value, -0) ? '-0.0' : '0.0';
  const [digits = '', exponentText = '0'] = value.toExponential().split('e');
  const exponent = Number(exponentText);
  if (exponent < -4 || exponent >= 16) {
    const padded = String(Math.abs(exponent)).padStart(2, '0');
    return `${digits}e${exponent < 0 ? '-' : '+'}${padded}`;
  }
  const plain = String(value);
  return plain.includes('.') ? plain : `${plain}.0`;
}

class Reader {
  readonly #text: string;
  #at = 0;

  constructor(text: string) {
    this.#text = text;
  }

  document(): PythonValue {
    this.#space();
    const value = this.#value();
    this.#space();
    if (this.#at !== this.#text.length) throw this.#error('Extra data', this.#at);
    return value;
  }

  #error(reason: string, at: number): PythonJsonError {
    return new PythonJsonError(reason, this.#text, at);
  }

  #space(): void {
    while (' \t\n\r'.includes(this.#text.charAt(this.#at)) && this.#at < this.#text.length) this.#at += 1;
  }

  #value(): PythonValue {
    const start = this.#at;
    const character = this.#text.charAt(start);
    if (character === '"') return this.#string();
    if (character === '{') return this.#object();
    if (character === '[') return this.#array();
    for (const [word, value] of [
      ['null', null],
      ['true', true],
      ['false', false],
      ['NaN', new PythonNumber('NaN')],
      ['Infinity', new PythonNumber('Infinity')],
      ['-Infinity', new PythonNumber('-Infinity')],
    ] as const) {
      if (this.#text.startsWith(word, start)) {
        this.#at += word.length;
        return value;
      }
    }
    const match = /^(-?(?:0|[1-9]\d*))(\.\d+)?([eE][-+]?\d+)?/.exec(this.#text.slice(start, start + 4096));
    if (match === null) throw this.#error('Expecting value', start);
    this.#at += match[0].length;
    if (match[2] === undefined && match[3] === undefined) {
      return new PythonNumber(match[1] === '-0' ? '0' : (match[1] ?? '0'));
    }
    return new PythonNumber(floatText(Number(match[0])));
  }

  #string(): string {
    const begin = this.#at;
    this.#at += 1;
    let text = '';
    for (;;) {
      const character = this.#text.charAt(this.#at);
      if (character === '') throw this.#error('Unterminated string starting at', begin);
      if (character === '"') break;
      if (character < ' ') throw this.#error('Invalid control character at', this.#at);
      if (character !== '\\') {
        text += character;
        this.#at += 1;
        continue;
      }
      const escape = this.#text.charAt(this.#at + 1);
      if (escape === '') throw this.#error('Unterminated string starting at', begin);
      if (escape === 'u') {
        const digits = this.#text.slice(this.#at + 2, this.#at + 6);
        if (!/^[0-9a-fA-F]{4}$/.test(digits)) throw this.#error('Invalid \\uXXXX escape', this.#at + 1);
        text += String.fromCharCode(Number.parseInt(digits, 16));
        this.#at += 6;
        continue;
      }
      const plain = escapes[escape];
      if (plain === undefined) throw this.#error('Invalid \\escape', this.#at);
      text += plain;
      this.#at += 2;
    }
    this.#at += 1;
    return text;
  }

  #object(): PythonValue {
    const members = new Map<string, PythonValue>();
    this.#at += 1;
    this.#space();
    if (this.#text.charAt(this.#at) === '}') {
      this.#at += 1;
      return members;
    }
    for (;;) {
      if (this.#text.charAt(this.#at) !== '"') {
        throw this.#error('Expecting property name enclosed in double quotes', this.#at);
      }
      const key = this.#string();
      this.#space();
      if (this.#text.charAt(this.#at) !== ':') throw this.#error("Expecting ':' delimiter", this.#at);
      this.#at += 1;
      this.#space();
      members.set(key, this.#value());
      this.#space();
      const next = this.#text.charAt(this.#at);
      if (next === '}') break;
      if (next !== ',') throw this.#error("Expecting ',' delimiter", this.#at);
      this.#at += 1;
      this.#space();
    }
    this.#at += 1;
    return members;
  }

  #array(): PythonValue {
    const items: PythonValue[] = [];
    this.#at += 1;
    this.#space();
    if (this.#text.charAt(this.#at) === ']') {
      this.#at += 1;
      return items;
    }
    for (;;) {
      items.push(this.#value());
      this.#space();
      const next = this.#text.charAt(this.#at);
      if (next === ']') break;
      if (next !== ',') throw this.#error("Expecting ',' delimiter", this.#at);
      this.#at += 1;
      this.#space();
    }
    this.#at += 1;
    return items;
  }
}

/** `json.loads`. Throws `PythonJsonError`. */
export function pythonLoads(text: string): PythonValue {
  return new Reader(text).document();
}

/** `json.dumps(value, ensure_ascii=False)`: `, ` and `: ` as separators, keys in their order. */
export function pythonDumps(value: unknown): string {
  if (value === null || value === undefined) return 'null';
  if (value instanceof PythonNumber) return value.text;
  if (typeof value === 'number') return Number.isInteger(value) ? String(value) : floatText(value);
  // JSON.stringify escapes as Python does, lone surrogates and U+007F apart, which do not matter here.
  if (typeof value === 'string') return JSON.stringify(value);
  if (typeof value === 'boolean') return value ? 'true' : 'false';
  if (Array.isArray(value)) return `[${value.map((item) => pythonDumps(item)).join(', ')}]`;
  if (value instanceof Map) {
    const members = [...(value as Map<string, unknown>)];
    return `{${members.map(([key, item]) => `${JSON.stringify(key)}: ${pythonDumps(item)}`).join(', ')}}`;
  }
  const members = Object.entries(value as Record<string, unknown>).filter(([, item]) => item !== undefined);
  return `{${members.map(([key, item]) => `${JSON.stringify(key)}: ${pythonDumps(item)}`).join(', ')}}`;
}
