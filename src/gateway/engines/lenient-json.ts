/** Strings, or the bare words that Python's json writes for floats that JSON does not have. */
const stringsAndWords = /"(?:[^"\\]|\\.)*"|-?\b(?:NaN|Infinity)\b/g;

/** JSON.parse that takes Python's NaN and Infinity for null. Throws SyntaxError. */
export function parseLenientJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    if (!/NaN|Infinity/.test(text)) throw error;
    return JSON.parse(text.replace(stringsAndWords, (token) => (token.startsWith('"') ? token : 'null')));
  }
}
