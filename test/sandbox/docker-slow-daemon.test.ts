import { createServer, request as httpRequest, type IncomingMessage, type ServerResponse } from 'node:http';
import { connect, type Socket } from 'node:net';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import type { Readable } from 'node:stream';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { createSandboxProvider, type SandboxProvider } from '../../src/sandbox/index.ts';
import { until } from '../support/wait.ts';
import { docker, haveDocker } from './docker-daemon.ts';
import { openGateway, requestOf, testPool } from './fixture.ts';

const realSocket = '/var/run/docker.sock';

/** What happens to a call whose path it matches: before it reaches the daemon, or with the daemon's answer. */
interface Trouble {
  readonly path: RegExp;
  /** Answered so, without asking the daemon. */
  readonly refuse?: number;
  /** The daemon does it, and the answer is held back until this resolves. */
  readonly hold?: Promise<void>;
  /** The daemon does it, and answers so. */
  readonly answer?: number;
}

/** The real daemon, behind a socket where some calls meet with trouble. */
class TroubledDaemon implements AsyncDisposable {
  readonly #sockets = new Set<Socket>();
  readonly #server = createServer((request, response) => void this.#pass(request, response));
  readonly path: string;
  trouble: Trouble | null = null;
  /** Calls that trouble met. */
  met = 0;

  constructor(path: string) {
    this.path = path;
    this.#server.on('upgrade', (request, socket: Socket, head) => this.#join(request, socket, head));
    this.#server.on('connection', (socket) => {
      this.#sockets.add(socket);
      socket.on('close', () => this.#sockets.delete(socket));
    });
  }

  async listen(): Promise<void> {
    await new Promise<void>((resolve) => this.#server.listen(this.path, resolve));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const socket of this.#sockets) socket.destroy();
    await new Promise((resolve) => this.#server.close(resolve));
  }

  async #pass(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const trouble =
      this.trouble?.path.test(`${request.method} ${request.url}`) === true ? this.trouble : null;
    if (trouble !== null) this.met += 1;
    const refuse = (status: number): void => {
      response.writeHead(status, { 'content-type': 'application/json' });
      response.end('{"message":"overloaded by test"}');
    };
    if (trouble?.refuse !== undefined) {
      request.resume();
      refuse(trouble.refuse);
      return;
    }
    const { method, url, headers } = request;
    const upstream = httpRequest({ socketPath: realSocket, method, path: url, headers }, (answer) => {
      void (async () => {
        await trouble?.hold;
        if (trouble?.answer !== undefined) {
          answer.resume();
          refuse(trouble.answer);
          return;
        }
        response.writeHead(answer.statusCode ?? 502, answer.headers);
        answer.pipe(response);
      })();
    });
    upstream.on('error', () => response.destroy());
    request.pipe(upstream);
  }

  #join(request: IncomingMessage, socket: Socket, head: Buffer): void {
    const upstream = connect(realSocket);
    const lines = [`${request.method} ${request.url} HTTP/1.1`];
    for (let index = 0; index < request.rawHeaders.length; index += 2) {
      lines.push(`${request.rawHeaders[index]}: ${request.rawHeaders[index + 1]}`);
    }
    upstream.write(`${lines.join('\r\n')}\r\n\r\n`);
    upstream.write(head);
    upstream.on('error', () => socket.destroy());
    socket.on('error', () => upstream.destroy());
    socket.on('close', () => upstream.destroy());
    upstream.on('close', () => socket.destroy());
    socket.pipe(upstream).pipe(socket);
  }
}

async function ours(): Promise<number> {
  const label = [`io.rollpool.pool=${testPool}`];
  return (await docker.listContainers({ all: true, filters: { label } })).length;
}

describe.runIf(haveDocker)('a daemon that is slow or fails', () => {
  let gateway: Awaited<ReturnType<typeof openGateway>>;
  let directory: string;
  let daemon: TroubledDaemon;
  let provider: SandboxProvider;

  beforeAll(async () => {
    gateway = await openGateway();
    directory = await mkdtemp(join(tmpdir(), `rp-daemon-${process.pid}-`));
    daemon = new TroubledDaemon(join(directory, 'docker.sock'));
    await daemon.listen();
    provider = createSandboxProvider('docker', { dockerHost: `unix://${daemon.path}` });
    await provider.probe();
  });
  beforeEach(() => {
    daemon.trouble = null;
    daemon.met = 0;
  });
  afterAll(async () => {
    daemon.trouble = null;
    await provider[Symbol.asyncDispose]();
    expect(await ours()).toBe(0);
    await daemon[Symbol.asyncDispose]();
    await gateway[Symbol.asyncDispose]();
    await rm(directory, { recursive: true });
  });

  test.each([
    ['refuses to make a container', { path: /^POST .*containers\/create/, refuse: 500 }],
    ['refuses to start one', { path: /^POST .*\/start$/, refuse: 500 }],
    ['started one and says that it did not', { path: /^POST .*\/start$/, answer: 500 }],
    ['is in the middle of ending', { path: /^POST .*\/start$/, answer: 503 }],
  ] as const)('that %s is ours, and leaves none', async (_what, trouble) => {
    daemon.trouble = trouble;
    await expect(provider.create(requestOf(gateway.directory))).rejects.toMatchObject({
      failure: { class: 'infra', phase: 'boot', retryable: true },
      message: expect.stringContaining('overloaded by test'),
    });
    expect(daemon.met).toBeGreaterThan(0);
    expect(await ours()).toBe(0);
  });

  test.each([
    ['made', /^POST .*containers\/create/],
    ['started', /^POST .*\/start$/],
  ])('one that is %s after its episode has left goes as well', async (_what, path) => {
    let release = (): void => undefined;
    daemon.trouble = { path, hold: new Promise<void>((resolve) => (release = resolve)) };
    const controller = new AbortController();
    const creating = provider.create(requestOf(gateway.directory, { signal: controller.signal }));
    creating.catch(() => undefined);
    await until(() => daemon.met > 0, 'the daemon was asked');
    await until(async () => (await ours()) > 0, 'it is made');
    controller.abort(new Error('cancelled by test'));
    await expect(creating).rejects.toThrow('cancelled by test');
    release();
    await until(async () => (await ours()) === 0, 'it is removed');
  });

  test('gets no more of them at once than it is meant to, whoever asks', async () => {
    // By the daemon's own account: made and not yet started.
    const events = await docker.getEvents({
      filters: { type: ['container'], event: ['create', 'start'], label: [`io.rollpool.pool=${testPool}`] },
    });
    let booting = 0;
    let most = 0;
    let started = 0;
    createInterface({ input: events }).on('line', (line) => {
      if ((JSON.parse(line) as { Action: string }).Action === 'create') most = Math.max(most, (booting += 1));
      else [booting, started] = [booting - 1, started + 1];
    });
    const few = createSandboxProvider('docker', { bootsAtOnce: 2 });
    const made = await Promise.all(
      Array.from({ length: 6 }, () => few.create(requestOf(gateway.directory, { spec: { memory_mb: 64 } }))),
    );
    await until(() => started === 6, 'the daemon has told of all');
    (events as Readable).destroy();
    expect(most).toBeGreaterThan(0);
    expect(most).toBeLessThanOrEqual(2);
    // One that gave up while it waited takes no place.
    const signal = AbortSignal.abort(new Error('cancelled by test'));
    await expect(few.create(requestOf(gateway.directory, { signal }))).rejects.toThrow('cancelled by test');
    await Promise.all(made.map((sandbox) => sandbox[Symbol.asyncDispose]()));
    await few[Symbol.asyncDispose]();
  });
});
