import { pack } from 'tar-stream';
import { docker } from '../sandbox/docker-daemon.ts';

/** An image with one text file in it: no shell, no program at all. Disposing removes it. */
export async function importBareImage(name: string): Promise<{ readonly name: string } & AsyncDisposable> {
  const tar = pack();
  tar.entry({ name: 'etc/hostname' }, 'bare');
  tar.finalize();
  const [repo, tag] = name.split(':');
  await new Promise<void>((resolve, reject) => {
    docker.importImage(tar as never, { repo, tag }, (error, stream) => {
      if (error || stream === undefined) return reject(error as Error);
      stream.resume();
      stream.on('end', resolve);
    });
  });
  return { name, [Symbol.asyncDispose]: async () => void (await docker.getImage(name).remove()) };
}
