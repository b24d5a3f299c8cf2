import { readFileSync } from 'node:fs';

/** Where the hand's program lies inside. */
export const insideDirectory = '/opt/rollpool';

const names = ['command.py', 'frames.py', 'hand.py', 'linux.py', 'verbs.py'] as const;

let read: readonly { readonly path: string; readonly data: string }[] | undefined;

/** The hand's program, as it is written into a sandbox. */
export function insideFiles(): readonly { readonly path: string; readonly data: string }[] {
  read ??= names.map((name) => ({
    path: `${insideDirectory}/${name}`,
    data: readFileSync(new URL(`./inside/${name}`, import.meta.url), 'utf8'),
  }));
  return read;
}
