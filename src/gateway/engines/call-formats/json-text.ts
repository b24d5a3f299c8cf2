import { parseLenientJson } from '../lenient-json.ts';

/** Index behind the string that begins here; -1 when it does not end. */
function stringEnd(text: string, at: number): number {
  for (let end = at + 1; end < text.length; end++) {
    const code = text.charCodeAt(end);
    if (code === 0x5c) end++;
    else if (code === 0x22) return end + 1;
  }
  return -1;
}

/** Index behind the object or array that begins here, by its brackets alone; -1 when it does not end. */
export function bracketEnd(text: string, at: number): number {
  let depth = 0;
  for (let place = at; place < text.length; place++) {
    const code = text.charCodeAt(place);
    if (code === 0x22) {
      place = stringEnd(text, place) - 1;
      if (place < 0) return -1;
    } else if (code === 0x7b || code === 0x5b) depth++;
    else if (code === 0x7d || code === 0x5d) {
      depth--;
      if (depth <= 0) return place + 1;
    }
  }
  return -1;
}

/** The texts of an array's elements, or of an object's members with their keys, as they stand. `json` is known to be such. */
function topParts(json: string): string[] {
  const parts: string[] = [];
  const inside = json.trim();
  let from = 1;
  for (let place = 1; place < inside.length; place++) {
    const code = inside.charCodeAt(place);
    if (code === 0x22) place = stringEnd(inside, place) - 1;
    else if (code === 0x7b || code === 0x5b) place = bracketEnd(inside, place) - 1;
    else if (code === 0x2c || place === inside.length - 1) {
      parts.push(inside.slice(from, place).trim());
      from = place + 1;
    }
  }
  return parts.filter((part) => part !== '');
}

/** The texts of a JSON array's elements. */
export function elementTexts(json: string): string[] {
  return topParts(json);
}

/** The text of a JSON object's member; the last of that name, null where there is none. */
export function memberText(json: string, name: string): string | null {
  let found: string | null = null;
  for (const part of topParts(json)) {
    const end = stringEnd(part, 0);
    if (JSON.parse(part.slice(0, end)) === name) found = part.slice(part.indexOf(':', end) + 1).trim();
  }
  return found;
}

/** The value of a text that is JSON, as Python reads it; undefined for any other. */
export function jsonValue(text: string): unknown {
  try {
    return parseLenientJson(text);
  } catch {
    return undefined;
  }
}

/** The name in a JSON object that is a call, else null. */
export function nameIn(value: unknown): string | null {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return null;
  const { name } = value as { readonly name?: unknown };
  return typeof name === 'string' && name !== '' ? name : null;
}
