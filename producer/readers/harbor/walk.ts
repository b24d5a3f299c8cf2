import { constants } from 'node:fs';
import { access, lstat, readdir, realpath, stat } from 'node:fs/promises';
import { join, sep } from 'node:path';

/** A regular file found in a directory; a link to one inside the bounds is one. */
export interface FoundFile {
  /** Relative to the directory, `/` between its parts. */
  readonly path: string;
  /** Where it is read. */
  readonly at: string;
  readonly size: number;
  readonly executable: boolean;
}

/** Something that cannot be taken along, and why. */
export interface Untakable {
  readonly path: string;
  readonly reason: string;
}

export interface WalkOptions {
  /** Links may lead to what is in here, and nowhere else. */
  readonly within: string;
  /** Leaves a file out, or with `directory` all that is below one. */
  readonly leaveOut?: (path: string, directory: boolean) => boolean;
  /** More entries than these are not looked at. */
  readonly most: number;
}

/** What tools of the format leave on a disk and nobody means. */
const litter = new Set(['.DS_Store', '__pycache__']);

function inside(path: string, root: string): boolean {
  return path === root || path.startsWith(root.endsWith(sep) ? root : `${root}${sep}`);
}

/**
 * The files below a directory in an order that only names decide. Links are followed where they stay inside the bounds;
 * whatever is neither file nor directory is `Untakable`. A directory that is not there has no files.
 */
export async function* walk(
  directory: string,
  { within, leaveOut = () => false, most }: WalkOptions,
): AsyncIterable<FoundFile | Untakable> {
  let root = '';
  let entries = 0;

  async function* below(
    at: string,
    path: string,
    above: readonly string[],
  ): AsyncIterable<FoundFile | Untakable> {
    const names: string[] = [];
    for (const name of await readdir(at, { encoding: 'buffer' })) {
      const text = name.toString('utf8');
      if (Buffer.from(text, 'utf8').equals(name)) names.push(text);
      else yield { path: path === '' ? text : `${path}/${text}`, reason: 'has a name that is not UTF-8' };
    }
    for (const name of names.sort()) {
      if (litter.has(name)) continue;
      const child = path === '' ? name : `${path}/${name}`;
      if ((entries += 1) > most) {
        yield { path: child, reason: `is one of more than ${most} files and directories` };
        return;
      }
      yield* entry(join(at, name), child, above);
      if (entries > most) return;
    }
  }

  async function* entry(
    at: string,
    path: string,
    above: readonly string[],
  ): AsyncIterable<FoundFile | Untakable> {
    try {
      let found = await lstat(at);
      let real = at;
      if (found.isSymbolicLink()) {
        if (leaveOut(path, false)) return;
        real = await realpath(at);
        if (!inside(real, root)) {
          yield {
            path,
            reason: 'is a link that leads out of its directory; only links inside it are followed',
          };
          return;
        }
        found = await stat(real);
      }
      if (found.isDirectory()) {
        if (leaveOut(path, true)) return;
        const self = await realpath(real);
        if (above.includes(self)) yield { path, reason: 'is a link to a directory that it is in' };
        else yield* below(real, path, [...above, self]);
        return;
      }
      if (leaveOut(path, false)) return;
      if (!found.isFile()) {
        yield { path, reason: 'is neither a file nor a directory' };
        return;
      }
      await access(real, constants.R_OK);
      yield { path, at: real, size: found.size, executable: (found.mode & 0o111) !== 0 };
    } catch (fault) {
      const { code, message } = fault as NodeJS.ErrnoException;
      const known: Record<string, string> = {
        ENOENT: 'is a link to nothing',
        ELOOP: 'is a link that leads to itself',
        EACCES: 'may not be read',
      };
      yield { path, reason: known[code ?? ''] ?? `cannot be read: ${message}` };
    }
  }

  try {
    const top = await stat(directory);
    if (!top.isDirectory()) return;
    root = await realpath(within);
    const self = await realpath(directory);
    if (!inside(self, root)) {
      yield {
        path: '',
        reason: 'is a link that leads out of its directory; only links inside it are followed',
      };
      return;
    }
    yield* below(directory, '', [self]);
  } catch (fault) {
    const { code, message } = fault as NodeJS.ErrnoException;
    if (code === 'ENOENT' || code === 'ENOTDIR') return;
    yield { path: '', reason: code === 'EACCES' ? 'may not be read' : `cannot be read: ${message}` };
  }
}
