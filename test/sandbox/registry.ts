import { createHash } from 'node:crypto';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { gzipSync } from 'node:zlib';
import { pack } from 'tar-stream';

/** How the registry treats a repository. */
export interface RepositoryFault {
  /** Status of its manifests: 404, 500 and so on. */
  readonly manifestStatus?: number;
  /** Its layer is cut off half-way, so many times. */
  cuts?: number;
  /** Its layer is sent half-way, and the rest once this resolves. */
  readonly hold?: Promise<void>;
}

interface Blob {
  readonly digest: string;
  readonly bytes: Buffer;
}

function blobOf(bytes: Buffer): Blob {
  return { digest: `sha256:${createHash('sha256').update(bytes).digest('hex')}`, bytes };
}

async function layerOf(text: string): Promise<Buffer> {
  const tar = pack();
  tar.entry({ name: 'hello' }, text);
  // Something that does not shrink, so that half a layer is a real half.
  tar.entry({ name: 'noise' }, createHash('sha512').update(text).digest().toString('hex').repeat(2_000));
  tar.finalize();
  const chunks: Buffer[] = [];
  for await (const chunk of tar) chunks.push(chunk as Buffer);
  return Buffer.concat(chunks);
}

/** A container registry (HTTP API v2) of images that hold one small layer. Docker speaks plain HTTP to a local one. */
export class Registry implements AsyncDisposable {
  readonly #server = createServer((request, response) => void this.#answer(request, response));
  readonly #repositories = new Map<
    string,
    { manifest: Blob; blobs: Map<string, Blob>; fault: RepositoryFault }
  >();
  /** Requests of manifests and layers, as `PATH`. */
  readonly requests: string[] = [];

  readonly #login: string | null;

  private constructor(login: string | null) {
    this.#login = login;
  }

  /** `login`: `user:password` that it asks for. */
  static async start(login: string | null = null): Promise<Registry> {
    const registry = new Registry(login);
    await new Promise<void>((resolve) => registry.#server.listen(0, '127.0.0.1', resolve));
    return registry;
  }

  get host(): string {
    return `127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  /** Adds a repository, whose image is `<host>/<name>:1`, and gives that. */
  async add(name: string, fault: RepositoryFault = {}): Promise<string> {
    const plain = await layerOf(`${name} ${process.pid}`);
    const layer = blobOf(gzipSync(plain));
    const config = blobOf(
      Buffer.from(
        JSON.stringify({
          architecture: process.arch === 'arm64' ? 'arm64' : 'amd64',
          os: 'linux',
          config: { Cmd: ['/none'] },
          rootfs: { type: 'layers', diff_ids: [blobOf(plain).digest] },
        }),
      ),
    );
    const manifest = blobOf(
      Buffer.from(
        JSON.stringify({
          schemaVersion: 2,
          mediaType: 'application/vnd.docker.distribution.manifest.v2+json',
          config: {
            mediaType: 'application/vnd.docker.container.image.v1+json',
            size: config.bytes.length,
            digest: config.digest,
          },
          layers: [
            {
              mediaType: 'application/vnd.docker.image.rootfs.diff.tar.gzip',
              size: layer.bytes.length,
              digest: layer.digest,
            },
          ],
        }),
      ),
    );
    this.#repositories.set(name, {
      manifest,
      blobs: new Map([layer, config].map((blob) => [blob.digest, blob])),
      fault,
    });
    return `${this.host}/${name}:1`;
  }

  /** How often a repository's manifest was asked for. */
  pulls(name: string): number {
    return this.requests.filter((path) => path.startsWith(`/v2/${name}/manifests/1`)).length;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#server.closeAllConnections();
    await new Promise((resolve) => this.#server.close(resolve));
  }

  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const path = request.url ?? '';
    this.requests.push(path);
    if (this.#login !== null) {
      const given = request.headers.authorization ?? '';
      if (given !== `Basic ${Buffer.from(this.#login).toString('base64')}`) {
        response.setHeader('www-authenticate', 'Basic realm="test"');
        refuse(response, 401, 'UNAUTHORIZED');
        return;
      }
    }
    const found = /^\/v2\/(.+)\/(manifests|blobs)\/(.+)$/.exec(path);
    if (found === null) {
      response.end('{}');
      return;
    }
    const repository = this.#repositories.get(found[1]!);
    if (repository === undefined) {
      refuse(response, 404, 'NAME_UNKNOWN');
      return;
    }
    const { fault } = repository;
    if (found[2] === 'manifests') {
      if (fault.manifestStatus !== undefined) {
        refuse(response, fault.manifestStatus, codes[fault.manifestStatus] ?? 'UNKNOWN');
        return;
      }
      response.setHeader('content-type', 'application/vnd.docker.distribution.manifest.v2+json');
      response.setHeader('docker-content-digest', repository.manifest.digest);
      response.setHeader('content-length', repository.manifest.bytes.length);
      response.end(request.method === 'HEAD' ? '' : repository.manifest.bytes);
      return;
    }
    const blob = repository.blobs.get(found[3]!);
    if (blob === undefined) {
      refuse(response, 404, 'BLOB_UNKNOWN');
      return;
    }
    response.setHeader('content-length', blob.bytes.length);
    const half = blob.bytes.subarray(0, blob.bytes.length / 2);
    const isLayer = [...repository.blobs.keys()][0] === blob.digest;
    if (isLayer && (fault.cuts ?? 0) > 0) {
      fault.cuts = fault.cuts! - 1;
      response.write(half, () => response.destroy());
      return;
    }
    if (isLayer && fault.hold !== undefined) {
      response.write(half);
      await fault.hold;
      response.end(blob.bytes.subarray(half.length));
      return;
    }
    response.end(blob.bytes);
  }
}

const codes: Readonly<Record<number, string>> = {
  403: 'DENIED',
  404: 'MANIFEST_UNKNOWN',
  429: 'TOOMANYREQUESTS',
};

function refuse(response: ServerResponse, status: number, code: string): void {
  response.statusCode = status;
  response.setHeader('content-type', 'application/json');
  response.end(JSON.stringify({ errors: [{ code, message: `${code.toLowerCase()} by test` }] }));
}
