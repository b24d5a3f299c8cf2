import type { Json } from '../field.ts';

/** What a document or a search result is to the policy: texts, and the image blocks that stand in it. */
export interface DocumentParts {
  readonly text: string;
  readonly images: readonly Json[];
}

const strings = (...values: readonly unknown[]): string[] =>
  values.filter((value): value is string => typeof value === 'string' && value !== '');

const objects = (list: readonly unknown[]): Json[] =>
  list.filter((each): each is Json => each !== null && typeof each === 'object');

/** What has no text is said to be missing, never dropped in silence. */
function bodyOf(block: Json): { readonly texts: readonly string[]; readonly images: readonly Json[] } {
  const source = block['source'];
  if (block['type'] === 'search_result') {
    const content = objects(Array.isArray(block['content']) ? block['content'] : []);
    return { texts: strings(source, ...content.map((each) => each['text'])), images: [] };
  }
  const { type, data, content, media_type } = objects([source])[0] ?? {};
  if (type === 'text' && typeof data === 'string') return { texts: [data], images: [] };
  if (type === 'content' && typeof content === 'string') return { texts: [content], images: [] };
  if (type === 'content' && Array.isArray(content)) {
    const blocks = objects(content);
    const images = blocks.filter((each) => each['type'] === 'image');
    const texts = blocks.map((each) => (each['type'] === 'image' ? '[image]' : each['text']));
    return { texts: strings(...texts), images };
  }
  const kind = strings(media_type, type)[0] ?? 'unknown';
  return { texts: [`[document omitted: only text documents are taken, not ${kind}]`], images: [] };
}

/** A document or search result, flattened to lines: title, context, text (case 7). */
export function documentParts(block: Json): DocumentParts {
  const { texts, images } = bodyOf(block);
  return { text: [...strings(block['title'], block['context']), ...texts].join('\n'), images };
}
