import { posix } from 'node:path';
import type { Readable } from 'node:stream';
import { extract, pack } from 'tar-stream';
import { fileBytes } from '../file-bytes.ts';
import type { UploadFiles } from '../sandbox.ts';

/** The directories above a relative path, outermost first. */
function parentsOf(path: string): string[] {
  const parts = path.split('/').slice(0, -1);
  return parts.map((_part, index) => parts.slice(0, index + 1).join('/'));
}

/**
 * A tar of `files` below `below` (relative, may be empty). Every directory on the way is an entry of its own: when the
 * daemon unpacks one, whatever is in its place and is not a directory (a symbolic link, above all) is replaced and not
 * followed.
 */
export async function packFiles(
  files: UploadFiles,
  options: { below: string; uid: number; mode: number },
): Promise<Buffer> {
  const tar = pack();
  const chunks: Buffer[] = [];
  const collected = (async () => {
    for await (const chunk of tar) chunks.push(chunk as Buffer);
  })();
  const owner = { uid: options.uid, gid: options.uid, mtime: new Date() };
  const directories = new Set<string>();
  for (const [path, content] of Object.entries(files)) {
    const name = posix.normalize(posix.join(options.below, path));
    for (const directory of parentsOf(name)) {
      if (directories.has(directory)) continue;
      directories.add(directory);
      tar.entry({ ...owner, name: `${directory}/`, type: 'directory', mode: 0o755 });
    }
    tar.entry({ ...owner, name, type: 'file', mode: options.mode }, Buffer.from(fileBytes(content)));
  }
  tar.finalize();
  await collected;
  return Buffer.concat(chunks);
}

/** The one regular file of a tar; null when it holds anything else or more than `maxBytes`. Lets go of the stream. */
export async function unpackFile(
  stream: NodeJS.ReadableStream,
  maxBytes: number,
): Promise<Uint8Array | null> {
  const tar = extract();
  stream.on('error', (error: Error) => tar.destroy(error));
  stream.pipe(tar);
  try {
    for await (const entry of tar) {
      if (entry.header.type !== 'file' || (entry.header.size ?? 0) > maxBytes) return null;
      const chunks: Buffer[] = [];
      for await (const chunk of entry) chunks.push(chunk as Buffer);
      return Buffer.concat(chunks);
    }
    return null;
  } finally {
    // dockerode gives the response of Node's http client, which can be destroyed, by a narrower type.
    (stream as Readable).destroy();
  }
}
