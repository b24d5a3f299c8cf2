/** Line ends of Unicode: no line ends of the protocol, but of clients that read lines with their language's own function. */
const unicodeLineEnds = /[\u0085\u2028\u2029]/g;

/** JSON for an event's data. */
export function eventJson(data: unknown): string {
  return JSON.stringify(data).replace(
    unicodeLineEnds,
    (end) => `\\u${end.charCodeAt(0).toString(16).padStart(4, '0')}`,
  );
}

/** One server-sent event; its name is its `type`, as Anthropic's are. */
export function sse(data: { readonly type: string; readonly [key: string]: unknown }): string {
  return `event: ${data.type}\ndata: ${eventJson(data)}\n\n`;
}

/** One server-sent event without a name, as OpenAI's are. */
export function sseData(data: unknown): string {
  return `data: ${typeof data === 'string' ? data : eventJson(data)}\n\n`;
}
