import { asList, asObject, asString } from '../field.ts';

/** Stands between system blocks: a fixed one, so that equal blocks always make equal prompts (case 19). */
const separator = '\n\n';

/**
 * The CLI's first system block may be this header, whose `cch=` changes with every request: left in, no two prompts
 * would share a prefix (case 20).
 */
const billingHeader = 'x-anthropic-billing-header';

/** System text out of a string or blocks; cache marks and billing headers are left out. Empty when there is none. */
export function systemText(value: unknown, path: string): string {
  if (value === undefined || value === null) return '';
  if (typeof value === 'string') {
    return value.startsWith(billingHeader) ? value.slice(value.indexOf('\n') + 1 || value.length) : value;
  }
  return asList(value, path)
    .map((block, at) => asString(asObject(block, `${path}.${at}`)['text'], `${path}.${at}.text`))
    .filter((text) => text !== '' && !text.startsWith(billingHeader))
    .join(separator);
}

export function joinSystem(texts: readonly string[]): string {
  return texts.filter((text) => text !== '').join(separator);
}
