/** Strings, or the bare words that Python's json writes for floats that JSON does not have. */
const stringsAndWords = /"(?:[^"\\]|\\.)*"|-?\b(?:NaN|Infinity)\b/g;

/** No server sends these as text: they stand for the words until the text is read. */
const words: ReadonlyMap<string, number> = new Map([
  ['\u{F0000}NaN', Number.NaN],
  ['\u{F0000}Infinity', Number.POSITIVE_INFINITY],
  ['\u{F0000}-Infinity', Number.NEGATIVE_INFINITY],
]);

/**
 * JSON.parse that takes Python's NaN and Infinity for what they are: a verifier may answer them, and an answer with one
 * must not be lost, nor be mistaken for null. Throws SyntaxError.
 */
export function parsePythonJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    if (!/NaN|Infinity/.test(text)) throw error;
    const marked = text.replace(stringsAndWords, (token) =>
      token.startsWith('"') ? token : `"\u{F0000}${token.replace('-NaN', 'NaN')}"`,
    );
    return JSON.parse(marked, (_key, value: unknown) =>
      typeof value === 'string' ? (words.get(value) ?? value) : value,
    );
  }
}
