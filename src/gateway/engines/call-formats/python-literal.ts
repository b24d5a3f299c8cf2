const names: Readonly<Record<string, string>> = { True: 'true', False: 'false', None: 'null' };
const escapes: Readonly<Record<string, string>> = {
  n: '\n',
  r: '\r',
  t: '\t',
  b: '\b',
  f: '\f',
  a: '\u0007',
  v: '\v',
  '0': '\0',
  '\n': '',
};
const hexadecimal: Readonly<Record<string, number>> = { x: 2, u: 4, U: 8 };

class NotALiteral extends Error {}

class Reader {
  readonly #text: string;
  #at = 0;

  constructor(text: string) {
    this.#text = text;
  }

  whole(): string {
    const json = this.#value(0);
    this.#blank();
    if (this.#at < this.#text.length) throw new NotALiteral();
    return json;
  }

  #blank(): void {
    while (/\s/.test(this.#text[this.#at] ?? '')) this.#at++;
  }

  #take(token: string): boolean {
    this.#blank();
    if (!this.#text.startsWith(token, this.#at)) return false;
    this.#at += token.length;
    return true;
  }

  #value(depth: number): string {
    if (depth > 100) throw new NotALiteral();
    this.#blank();
    const first = this.#text[this.#at] ?? '';
    if (first === '"' || first === "'") return JSON.stringify(this.#string());
    if (this.#take('{')) return `{${this.#items('}', () => this.#member(depth)).join(', ')}}`;
    if (this.#take('[')) return `[${this.#items(']', () => this.#value(depth + 1)).join(', ')}]`;
    if (this.#take('(')) return this.#tuple(depth);
    const [word] = /[\w.+-]+/y.exec(this.#text.slice(this.#at)) ?? [''];
    this.#at += word.length;
    const number = /^[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?$/.test(word);
    const json = number ? numberText(word) : names[word];
    if (json === undefined) throw new NotALiteral();
    return json;
  }

  #member(depth: number): string {
    this.#blank();
    const key = this.#string();
    if (!this.#take(':')) throw new NotALiteral();
    return `${JSON.stringify(key)}: ${this.#value(depth + 1)}`;
  }

  /** A value in brackets is that value; with a comma it is a list. */
  #tuple(depth: number): string {
    const start = this.#at;
    const items = this.#items(')', () => this.#value(depth + 1));
    const [only = ''] = items;
    const comma = /,\s*\)$/.test(this.#text.slice(start, this.#at));
    return items.length === 1 && !comma ? only : `[${items.join(', ')}]`;
  }

  #items(end: string, item: () => string): string[] {
    const items: string[] = [];
    while (!this.#take(end)) {
      if (items.length > 0 && !this.#take(',')) throw new NotALiteral();
      if (items.length > 0 && this.#take(end)) break;
      items.push(item());
    }
    return items;
  }

  #string(): string {
    const quote = this.#text[this.#at] ?? '';
    if (quote !== '"' && quote !== "'") throw new NotALiteral();
    let said = '';
    for (this.#at++; ; this.#at++) {
      const character = this.#text[this.#at];
      if (character === undefined || character === '\n') throw new NotALiteral();
      if (character === quote) break;
      said += character === '\\' ? this.#escape() : character;
    }
    this.#at++;
    return said;
  }

  /** Ends on the escape's last character. */
  #escape(): string {
    const kind = this.#text[++this.#at] ?? '';
    const digits = hexadecimal[kind];
    if (digits === undefined) return escapes[kind] ?? (/["'\\]/.test(kind) ? kind : `\\${kind}`);
    const code = this.#text.slice(this.#at + 1, this.#at + 1 + digits);
    const point = /^[0-9a-f]+$/i.test(code) && code.length === digits ? parseInt(code, 16) : Infinity;
    if (point > 0x10ffff) throw new NotALiteral();
    this.#at += digits;
    return String.fromCodePoint(point);
  }
}

function numberText(word: string): string {
  const [digits = ''] = /^[+-]?\d+$/.exec(word) ?? [];
  return digits === '' ? String(Number(word)) : BigInt(digits.replace('+', '')).toString();
}

/** A Python literal (`{'a': True}`) as JSON; null when it is none. What some models write where JSON was asked for. */
export function literalAsJson(text: string): string | null {
  try {
    const json = new Reader(text.trim()).whole();
    JSON.parse(json);
    return json;
  } catch {
    return null;
  }
}
