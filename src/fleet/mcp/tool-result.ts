import type { ToolResult } from '../environment.ts';
import { boundedText, jsonText, safeText } from './result-text.ts';

type Fields = Readonly<Record<string, unknown>>;

/** The result of `tools/call` before anybody looked at it: a content of a kind that is new does not void the rest. */
export interface RawToolResult {
  readonly content?: unknown;
  readonly structuredContent?: unknown;
  /** What servers of protocol 2024-10-07 answered with. */
  readonly toolResult?: unknown;
  readonly isError?: unknown;
}

const emptyAnswer = 'The tool answered with nothing.';
const tooDeep = '[structured content nested too deep to be shown]';
/** Characters of base64, about 24 MB of an image. */
const imageLimit = 32 * 2 ** 20;

function fieldsOf(value: unknown): Fields | null {
  return typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Fields) : null;
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return undefined;
  }
}

/** Magic numbers of the image formats that models read, in base64. */
const signatures: readonly (readonly [string, string])[] = [
  ['/9j/', 'image/jpeg'],
  ['iVBOR', 'image/png'],
  ['R0lGOD', 'image/gif'],
  ['UklGR', 'image/webp'],
];

/** A `data:` URI, or null for what is not an image in base64. */
function imageUri(data: unknown, mimeType: unknown): string | null {
  if (typeof data !== 'string' || data.length === 0 || data.length > imageLimit) return null;
  const uri = /^data:([^;,]+);base64,/.exec(data.slice(0, 100));
  const base64 = (uri === null ? data : data.slice(uri[0].length)).replaceAll(/\s+/g, '');
  if (!/^[A-Za-z0-9+/]+={0,2}$/.test(base64)) return null;
  const told = uri?.[1] ?? mimeType;
  const mime =
    typeof told === 'string' && /^image\/[\w.+-]+$/.test(told)
      ? told
      : (signatures.find(([start]) => base64.startsWith(start))?.[1] ?? 'image/png');
  return `data:${mime};base64,${base64}`;
}

function described(kind: string, facts: readonly unknown[]): string {
  const known = facts.filter((fact) => typeof fact === 'string' && fact !== '');
  return `[${[kind, ...known].join(', ')}]`;
}

function resourceText(resource: Fields): string {
  const head = described('resource', [resource['uri'], resource['mimeType']]);
  return typeof resource['text'] === 'string' ? `${head}\n${resource['text']}` : head;
}

/** The texts and images of one content block. */
function blockParts(block: unknown): { text?: string; image?: string } {
  const fields = fieldsOf(block);
  if (fields === null) return {};
  switch (fields['type']) {
    case 'text': {
      const text = typeof fields['text'] === 'string' ? fields['text'] : '';
      if (!text.includes('"base64_image"')) return { text };
      const { base64_image: data, ...rest } = fieldsOf(parsed(text)) ?? {};
      const image = imageUri(data, rest['media_type'] ?? rest['mime_type']);
      if (image === null) return { text };
      return { image, ...(Object.keys(rest).length > 0 && { text: jsonText(rest) ?? tooDeep }) };
    }
    case 'image': {
      const image = imageUri(fields['data'], fields['mimeType']);
      return image === null
        ? { text: described('an image that cannot be read', [fields['mimeType']]) }
        : { image };
    }
    case 'audio':
      return { text: described('audio', [fields['mimeType']]) };
    case 'resource':
      return { text: resourceText(fieldsOf(fields['resource']) ?? {}) };
    case 'resource_link':
      return {
        text: described('resource link', [
          fields['uri'],
          fields['name'],
          fields['description'],
          fields['mimeType'],
        ]),
      };
    default:
      return { text: described('content of another kind', [fields['type']]) };
  }
}

/** Several texts that are all JSON are a list that the server took apart (one text an item): they become one again. */
function joined(texts: readonly string[]): string {
  if (texts.length < 2) return texts[0] ?? '';
  return texts.every((text) => parsed(text) !== undefined) ? `[${texts.join(',\n')}]` : texts.join('\n\n');
}

/** The vendor's client takes `{"status":"failed"}` and a truthy `error` or `isError` for failures too. */
function tellsOfFailure(value: unknown): boolean {
  const fields = fieldsOf(value);
  if (fields === null) return false;
  return Boolean(fields['error']) || Boolean(fields['isError']) || fields['status'] === 'failed';
}

/**
 * What a tool answered (facts on the MCP wire: text, JSON text, several texts, images, JSON with `base64_image`,
 * structuredContent, isError) as the model is to read it. A single text is passed on as it is, JSON included; several
 * are joined into a JSON array when each of them is JSON, else by blank lines; structuredContent counts only where there
 * is no text. The text is never empty, has no lone surrogates or control characters and is bounded.
 */
export function toToolResult(raw: RawToolResult): ToolResult {
  const parts = Array.isArray(raw.content) ? raw.content.map(blockParts) : [];
  const images = parts.flatMap(({ image }) => image ?? []);
  const texts = parts.flatMap(({ text }) => (text === undefined || text.trim() === '' ? [] : [text]));
  const structured = raw.structuredContent ?? raw.toolResult;
  if (texts.length === 0 && structured !== undefined && structured !== null) {
    texts.push(typeof structured === 'string' ? structured : (jsonText(structured) ?? tooDeep));
  }
  const [only, ...others] = texts;
  const is_error =
    raw.isError === true ||
    (only !== undefined &&
      others.length === 0 &&
      /"(error|isError|status)"/.test(only) &&
      tellsOfFailure(parsed(only)));
  return { text: boundedText(safeText(joined(texts))) || textOfNone(images.length), images, is_error };
}

function textOfNone(images: number): string {
  if (images === 0) return emptyAnswer;
  return images === 1 ? 'The tool answered with an image.' : `The tool answered with ${images} images.`;
}
