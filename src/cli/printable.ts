/**
 * What a terminal would act on, or show as nothing, or in another order: control characters (C0, C1, DEL), invisible format
 * characters such as bidirectional overrides, line and paragraph separators, lone surrogates. The joiners that scripts
 * and emoji need stay.
 */
const acting = /(?![\n\u200c\u200d])[\p{Cc}\p{Cf}\p{Cs}\u2028\u2029]/gu;

function escaped(character: string): string {
  const code = character.codePointAt(0) ?? 0;
  if (code === 0x1b) return '\\e';
  if (code === 0x09) return '\\t';
  if (code === 0x0d) return '\\r';
  return code < 0x100 ? `\\x${code.toString(16).padStart(2, '0')}` : `\\u{${code.toString(16)}}`;
}

/** Text of strangers as it may go to a terminal: what would act there is shown instead. Line feeds stay. */
export function printable(text: string): string {
  return text.replace(acting, escaped);
}

/** JSON that may go to a terminal and still means the same. */
export function printableJson(value: unknown): string {
  return JSON.stringify(value).replace(acting, (character) =>
    [...Array(character.length).keys()]
      .map((at) => `\\u${character.charCodeAt(at).toString(16).padStart(4, '0')}`)
      .join(''),
  );
}
