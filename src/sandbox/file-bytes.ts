import type { FileContent } from '../contracts/index.ts';

/** The bytes of a file that is to be written: text is UTF-8. */
export function fileBytes(content: FileContent | Uint8Array): Uint8Array {
  if (content instanceof Uint8Array) return content;
  return typeof content === 'string' ? Buffer.from(content, 'utf8') : Buffer.from(content.base64, 'base64');
}
