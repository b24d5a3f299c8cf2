import { readFileSync } from 'node:fs';

let source: string | undefined;

/** The relay's text (relay.py): python3 runs it from standard input or from a file. */
export function relaySource(): string {
  source ??= readFileSync(new URL('./relay.py', import.meta.url), 'utf8');
  return source;
}
