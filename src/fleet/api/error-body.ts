/** What an error's body says, whatever shape it has. */
export interface ErrorBody {
  /** The server's words on one line; '' when there are none. */
  readonly words: string;
  readonly error_type: string | null;
  readonly retryable: boolean | null;
  readonly running_instances: number | null;
  readonly instance_limit: number | null;
}

/** Characters of the server's words that are kept. */
const wordsLimit = 1_000;
/** Characters of a body that are looked at. */
const readLimit = 2 ** 20;
/** Characters of a page that are looked at. */
const pageLimit = 8_192;

type Json = Readonly<Record<string, unknown>>;

function objectOf(value: unknown): Json | null {
  return typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Json) : null;
}

function text(value: unknown): string | null {
  return typeof value === 'string' && value.trim() !== '' ? value : null;
}

function count(value: unknown): number | null {
  return typeof value === 'number' && Number.isFinite(value) ? value : null;
}

function parsed(body: string): unknown {
  try {
    return JSON.parse(body);
  } catch {
    return undefined;
  }
}

/** The words of a page that a proxy wrote: its title, else its text. */
function wordsOfHtml(page: string): string {
  const body = page.slice(0, pageLimit);
  const title = /<title[^>]*>([\s\S]*?)<\/title>/i.exec(body)?.[1];
  return title ?? body.replace(/<(script|style)[\s\S]*?<\/\1>/gi, ' ').replace(/<[^>]*>/g, ' ');
}

/** One line a fault, for the list that a rejected request body is answered with. */
function wordsOfFaults(faults: readonly unknown[]): string {
  return faults
    .map((fault) => {
      const { loc, msg } = objectOf(fault) ?? {};
      const where = Array.isArray(loc) ? loc.join('.') : '';
      return text(msg) === null
        ? JSON.stringify(fault)
        : where === ''
          ? String(msg)
          : `${where}: ${String(msg)}`;
    })
    .join('; ');
}

function wordsOf(detail: unknown, whole: unknown): string {
  if (Array.isArray(detail)) return wordsOfFaults(detail);
  const object = objectOf(detail);
  if (object === null) return text(detail) ?? (whole === undefined ? '' : JSON.stringify(whole));
  return text(object['message']) ?? JSON.stringify(object);
}

/**
 * Reads `{"detail": string | {error_type?, message?, ...}}`, a list of faults, any other JSON, HTML or plain text. A
 * `retryable` may also stand in JSON inside the words: the service passes on what its driver answered.
 */
export function readErrorBody(body: string): ErrorBody {
  const head = body.slice(0, readLimit);
  const whole = parsed(head);
  const top = objectOf(whole);
  const rawDetail = top?.['detail'] ?? top?.['error'] ?? top?.['message'];
  const detail = objectOf(rawDetail);
  const raw =
    whole === undefined ? (/^\s*</.test(head) ? wordsOfHtml(head) : head) : wordsOf(rawDetail, whole);
  const stated = detail?.['retryable'] ?? top?.['retryable'];
  const nested = /\\*"retryable\\*"\s*:\s*(true|false)/.exec(head)?.[1];
  const words = raw.replace(/\s+/g, ' ').trim();
  return {
    words: words.length > wordsLimit ? `${words.slice(0, wordsLimit)}...` : words,
    error_type: text(detail?.['error_type']) ?? text(top?.['error_type']),
    retryable: typeof stated === 'boolean' ? stated : nested === undefined ? null : nested === 'true',
    running_instances: count(detail?.['running_instances']),
    instance_limit: count(detail?.['instance_limit']),
  };
}
