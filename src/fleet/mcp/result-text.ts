/** Characters of a tool's answer that a model is shown. */
export const textLimit = 256 * 1024;

/** Without lone surrogates, which no UTF-8 can carry, and without control characters other than tab and line ends. */
export function safeText(text: string): string {
  return text.replaceAll(/\p{Surrogate}|[\u0000-\u0008\u000B\u000C\u000E-\u001F\u007F]/gu, '\uFFFD');
}

/** JSON text of what a server sent; null where it is nested deeper than can be written. */
export function jsonText(value: unknown): string | null {
  try {
    return JSON.stringify(value) ?? null;
  } catch {
    return null;
  }
}

/** The first `limit` characters and a note of how many are not shown. */
export function boundedText(text: string, limit = textLimit): string {
  if (text.length <= limit) return text;
  // Half of a surrogate pair is not a character.
  const end = /[\uD800-\uDBFF]/.test(text.charAt(limit - 1)) ? limit - 1 : limit;
  return `${text.slice(0, end)}\n[cut here: ${text.length - end} of ${text.length} characters are not shown]`;
}

/** What a server said, on one line that fits into a message. */
export function lastWords(text: string, limit = 300): string {
  const line = safeText(text).replaceAll(/\s+/g, ' ').trim();
  return line.length <= limit ? line : `${line.slice(0, limit)}…`;
}

/** Takes the values of headers that carry credentials out of a text that a server may have echoed them in. */
export function withoutSecrets(headers: Readonly<Record<string, string>>): (text: string) => string {
  const secrets = Object.entries(headers)
    .filter(([name]) => /auth|key|token|cookie|secret/i.test(name))
    .map(([, value]) => value.replace(/^(Bearer|Basic)\s+/i, '').trim())
    .filter((value) => value.length >= 6);
  return (text) => secrets.reduce((kept, secret) => kept.replaceAll(secret, '[redacted]'), text);
}
