import type { ContentPart } from '../../contracts/index.ts';
import type { Observation } from './dialect.ts';

/** A result as the policy reads it: what failed says so first. */
export function resultText({ result }: Observation): string {
  return result.is_error ? `Error: ${result.text}` : result.text;
}

export function imageParts({ result }: Observation): ContentPart[] {
  return result.images.map((url) => ({ type: 'image_url', image_url: { url } }));
}

/** For a turn that the token limit ended before it had a whole call. */
export const cutOffNotice =
  'Your last message was too long and was cut off. If it was to call a tool, make that call again; otherwise go on.';
