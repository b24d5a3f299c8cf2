import { execFileSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { createServer as createHttpServer, type RequestListener } from 'node:http';
import { createServer as createHttpsServer } from 'node:https';
import { connect, createServer, type AddressInfo, type Server, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import {
  openEgressProxy,
  type EgressProxy,
  type EgressProxyOptions,
} from '../../../src/sandbox/egress/index.ts';

/** A temporary directory that goes with its owner. */
export function temporary(): AsyncDisposable & { readonly path: string } {
  const path = mkdtempSync(join(tmpdir(), `rp-egress-${process.pid}-`));
  return { path, [Symbol.asyncDispose]: () => rm(path, { recursive: true, force: true }) };
}

export interface Host extends AsyncDisposable {
  readonly port: number;
  /** Connections it has had. */
  readonly connections: readonly Socket[];
}

async function listen(server: Server, address = '127.0.0.1'): Promise<Host> {
  const connections: Socket[] = [];
  server.on('connection', (socket: Socket) => {
    connections.push(socket);
    socket.on('error', () => undefined);
  });
  server.listen(0, address);
  await once(server, 'listening');
  return {
    port: (server.address() as AddressInfo).port,
    connections,
    [Symbol.asyncDispose]: async () => {
      const closed = new Promise((resolve) => server.close(resolve));
      for (const socket of connections) socket.destroy();
      await closed;
    },
  };
}

/** A host that speaks HTTP. */
export function httpHost(listener: RequestListener): Promise<Host> {
  return listen(createHttpServer(listener));
}

/** A host that does with its connections what it is told. */
export function tcpHost(handle: (socket: Socket) => void, address?: string): Promise<Host> {
  return listen(createServer({ allowHalfOpen: true }, handle), address);
}

/** A host that speaks HTTPS by the name `name`; `certificate` is the one to trust. */
export async function httpsHost(
  name: string,
  listener: RequestListener,
): Promise<Host & { readonly certificate: string }> {
  await using made = temporary();
  const [key, certificate] = [join(made.path, 'key.pem'), join(made.path, 'cert.pem')];
  const subject = ['-subj', `/CN=${name}`, '-addext', `subjectAltName=DNS:${name}`, '-days', '2'];
  execFileSync(
    'openssl',
    [
      'req',
      '-x509',
      '-newkey',
      'ec',
      '-pkeyopt',
      'ec_paramgen_curve:prime256v1',
      '-nodes',
      ...subject,
    ].concat(['-keyout', key, '-out', certificate]),
    { stdio: 'ignore' },
  );
  const text = readFileSync(certificate, 'utf8');
  const host = await listen(createHttpsServer({ key: readFileSync(key), cert: text }, listener));
  return { ...host, certificate: text };
}

export interface OpenedProxy extends AsyncDisposable {
  readonly proxy: EgressProxy;
  readonly socketPath: string;
  /** Names that were looked up, in order. */
  readonly asked: readonly string[];
}

/** A proxy that takes names for the addresses of `names` and may reach this machine's loopback. */
export async function openProxy(
  options: Omit<Partial<EgressProxyOptions>, 'socketPath'> & {
    names?: Readonly<Record<string, readonly string[]>>;
  },
): Promise<OpenedProxy> {
  const directory = temporary();
  const socketPath = join(directory.path, 'egress.sock');
  const asked: string[] = [];
  const { names = {}, ...rest } = options;
  const proxy = await openEgressProxy({
    allow: ['allowed.test'],
    allowPrivate: ['127.0.0.0/8'],
    resolve: async (name) => {
      asked.push(name);
      const found = names[name];
      if (found === undefined) throw Object.assign(new Error(name), { code: 'ENOTFOUND' });
      return found;
    },
    ...rest,
    socketPath,
  });
  return {
    proxy,
    socketPath,
    asked,
    [Symbol.asyncDispose]: async () => {
      await proxy[Symbol.asyncDispose]();
      await directory[Symbol.asyncDispose]();
    },
  };
}

/** A connection to a proxy, whose words are kept. */
export class Client implements AsyncDisposable {
  readonly socket: Socket;
  said = '';
  readonly closed: Promise<void>;

  constructor(path: string) {
    this.socket = connect({ path, allowHalfOpen: true });
    this.socket.setEncoding('latin1');
    this.socket.on('data', (text: string) => (this.said += text));
    this.socket.on('error', () => undefined);
    this.closed = new Promise((resolve) => this.socket.once('close', () => resolve()));
    this.socket.once('end', () => this.socket.end());
  }

  /** Sends lines, with a line end after each. */
  send(...lines: string[]): this {
    this.socket.write(`${lines.join('\r\n')}\r\n`, 'latin1');
    return this;
  }

  /** Status of the first answer; 0 when there is none. */
  get status(): number {
    return Number(/^HTTP\/1\.1 (\d+)/.exec(this.said)?.[1] ?? 0);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.socket.destroy();
    await this.closed;
  }
}

/** Sends a whole request and gives all that comes back until the connection ends. */
export async function ask(path: string, ...lines: string[]): Promise<Client> {
  const client = new Client(path).send(...lines, '');
  await client.closed;
  return client;
}
