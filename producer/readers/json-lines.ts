import { linesOf, type Line } from './lines.ts';
import { parseJson } from './parse-json.ts';
import type { FileHead, FileReader, RawTask } from './task-reader.ts';

const longestLine = 64 * 2 ** 20;

/** One task from one line; null for a line of white space. */
function readLine({ bytes }: Line): { value: unknown } | { unreadable: string } | null {
  if (bytes === null) return { unreadable: `the line is longer than ${longestLine} bytes` };
  let text: string;
  try {
    text = new TextDecoder('utf-8', { fatal: true }).decode(bytes);
  } catch {
    return { unreadable: 'the line is not UTF-8 text' };
  }
  if (text.trim() === '') return null;
  const parsed = parseJson(text);
  if ('value' in parsed) return parsed;
  return { unreadable: `broken JSON at column ${parsed.fault.column}: ${parsed.fault.reason}` };
}

function looksLikeLines(head: FileHead): boolean {
  const [, first = '', rest = ''] = /^\s*([^\n]*)(\n[^]*)?$/.exec(head.text) ?? [];
  if (!first.startsWith('{')) return false;
  const parsed = parseJson(first);
  if ('value' in parsed) return !('tasks' in (parsed.value as object));
  // A first line that is not JSON by itself: a document over several lines, or a broken line among others.
  if (rest !== '') return first.trimEnd().endsWith('}');
  return !head.complete && !/^\{\s*"tasks"/.test(first);
}

/** A task a line. A line that is broken is that task's fault alone; the file may be of any size. */
export const jsonLinesReader: FileReader = {
  name: 'JSON lines',
  matches: (head) => /\.(jsonl|ndjson)$/i.test(head.path) || looksLikeLines(head),
  async *read(path: string, signal?: AbortSignal): AsyncIterable<RawTask> {
    let index = 0;
    for await (const line of linesOf(path, longestLine, signal)) {
      const read = readLine(line);
      if (read !== null) yield { index: index++, line: line.number, ...read };
    }
  },
};
