/**
 * Escapes of JSON text: a pair of surrogates, half of one (the group), any other. They are matched one after another,
 * so that a backslash which is itself escaped begins nothing.
 */
const escapes =
  /\\u[dD][89abAB][\da-fA-F]{2}\\u[dD][c-fC-F][\da-fA-F]{2}|(\\u[dD][89a-fA-F][\da-fA-F]{2})|\\./g;

/**
 * JSON text without lone surrogates, which JSON can carry as escapes and no tokenizer takes: they become U+FFFD in keys
 * and values, always the same. Other text comes back as it is, valid or not.
 */
export function wellFormedJson(text: string): string {
  // Most text has none of the escapes, and a search for two strings says so in no time.
  if (!text.includes('\\ud') && !text.includes('\\uD')) return text;
  return text.replace(escapes, (escape, lone) => (lone === undefined ? escape : '\uFFFD'));
}
