import type { TraceLine } from './trace-line.ts';

/** Characters of one text that are kept at its beginning and at its end: a long output says most there. */
const textLimit = { head: 24_576, tail: 8_192 };
/** Characters of all texts of one line. */
const lineLimit = 262_144;
/** Entries of one list that are kept at its beginning and at its end. */
const listLimit = { head: 100, tail: 100 };

function shortened(text: string): string {
  if (text.startsWith('data:') && text.length > 100) {
    return `${text.slice(0, 60)}…[${text.length - 60} more characters of a data URI]`;
  }
  const { head, tail } = textLimit;
  const left = text.length - head - tail;
  if (left <= 0) return text;
  return `${text.slice(0, head)}…[${left} characters left out]…${text.slice(-tail)}`;
}

function withoutSecrets(text: string, secrets: readonly string[]): string {
  return secrets.reduce((hidden, secret) => hidden.replaceAll(secret, '[secret]'), text);
}

/**
 * One line of the file, its end included. What an agent can make as large as it likes is cut, and says so; secrets are
 * replaced before that, so that no part of one is left at a cut.
 */
export function lineText(line: TraceLine, secrets: readonly string[] = []): string {
  let left = lineLimit;
  const text = JSON.stringify(line, (_key, value: unknown) => {
    if (typeof value === 'string') {
      const kept = shortened(withoutSecrets(value, secrets));
      left -= kept.length;
      return left >= 0 ? kept : '…[left out: the line is full]';
    }
    if (Array.isArray(value) && value.length > listLimit.head + listLimit.tail) {
      const out = value.length - listLimit.head - listLimit.tail;
      return [
        ...(value.slice(0, listLimit.head) as unknown[]),
        `…[${out} entries left out]…`,
        ...(value.slice(-listLimit.tail) as unknown[]),
      ];
    }
    return value;
  });
  return `${text}\n`;
}
