import { createHash } from 'node:crypto';
import { posix } from 'node:path';
import { pack } from 'tar-stream';
import type { ImageBuild } from '../../../contracts/index.ts';
import { fileBytes } from '../../file-bytes.ts';

interface ContextFile {
  readonly path: string;
  readonly bytes: Uint8Array;
  readonly executable: boolean;
}

function filesOf(build: ImageBuild): ContextFile[] {
  const executable = new Set(build.executable?.map((path) => posix.normalize(path)));
  return Object.entries(build.files)
    .map(([path, content]) => ({ path: posix.normalize(path), bytes: fileBytes(content) }))
    .map((file) => ({ ...file, executable: executable.has(file.path) }))
    .toSorted((a, b) => (a.path < b.path ? -1 : 1));
}

export function dockerfileOf(build: ImageBuild): string {
  return posix.normalize(build.dockerfile ?? 'Dockerfile');
}

const tags = new WeakMap<ImageBuild, string>();

/** The tag of what a build makes: the same files give the same one, in every process and on every machine. */
export function buildTag(build: ImageBuild): string {
  const known = tags.get(build);
  if (known !== undefined) return known;
  const hash = createHash('sha256');
  const add = (part: string | Uint8Array): void => {
    hash.update(`${part.length}:`);
    hash.update(part);
  };
  add(Buffer.from(dockerfileOf(build)));
  for (const { path, bytes, executable } of filesOf(build)) {
    add(Buffer.from(path));
    add(executable ? 'x' : '-');
    add(bytes);
  }
  const tag = `rollpool-build:${hash.digest('hex').slice(0, 40)}`;
  tags.set(build, tag);
  return tag;
}

/** The context as Docker's builder takes it. Without times of its own, so that nothing but content decides. */
export async function packContext(build: ImageBuild): Promise<Buffer> {
  const tar = pack();
  const chunks: Buffer[] = [];
  const collected = (async () => {
    for await (const chunk of tar) chunks.push(chunk as Buffer);
  })();
  for (const { path, bytes, executable } of filesOf(build)) {
    const header = {
      name: path,
      type: 'file',
      mode: executable ? 0o755 : 0o644,
      mtime: new Date(0),
    } as const;
    tar.entry(header, Buffer.from(bytes));
  }
  tar.finalize();
  await collected;
  return Buffer.concat(chunks);
}

/** Names of the images it starts from, as far as they stand there as they are. */
export function baseImages(build: ImageBuild): string[] {
  const content = build.files[dockerfileOf(build)] ?? build.files[build.dockerfile ?? 'Dockerfile'];
  if (content === undefined) return [];
  const text = Buffer.from(fileBytes(content)).toString('utf8');
  const found = [...text.matchAll(/^[ \t]*FROM[ \t]+(?:--platform=\S+[ \t]+)?(\S+)/gim)].map(
    (match) => match[1]!,
  );
  return found.filter((name) => name !== 'scratch' && !name.includes('$'));
}
