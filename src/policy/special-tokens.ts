/** Ids 0 to 255 are single bytes; special tokens follow; merged pieces begin at `firstPieceId`. */
export const firstSpecialId = 256;
export const firstPieceId = 320;

const names = [
  '<|endoftext|>',
  '<|im_start|>',
  '<|im_end|>',
  '<think>',
  '</think>',
  '<tool_call>',
  '</tool_call>',
  '<tool_response>',
  '</tool_response>',
  '<tools>',
  '</tools>',
] as const;
export type SpecialName = (typeof names)[number];

const ids = new Map<string, number>(names.map((name, index) => [name, firstSpecialId + index]));
const pattern = new RegExp(
  names.map((name) => name.replaceAll(/[|\\{}()[\]^$+*?.]/g, String.raw`\$&`)).join('|'),
  'g',
);

export function specialId(name: SpecialName): number {
  return ids.get(name) ?? firstSpecialId;
}

/** The text of a special token, or undefined for any other id. */
export function specialText(id: number): string | undefined {
  return names[id - firstSpecialId];
}

/** The turn's end: what the policy samples last, counted in ids and logprobs and absent from the text. */
export const endOfTurn = specialId('<|im_end|>');

/** Splits text at spelled special tokens: strings are plain text, numbers are special ids. */
export function splitSpecials(text: string): (string | number)[] {
  const parts: (string | number)[] = [];
  let from = 0;
  for (const match of text.matchAll(pattern)) {
    if (match.index > from) parts.push(text.slice(from, match.index));
    parts.push(ids.get(match[0]) ?? firstSpecialId);
    from = match.index + match[0].length;
  }
  if (from < text.length) parts.push(text.slice(from));
  return parts;
}
