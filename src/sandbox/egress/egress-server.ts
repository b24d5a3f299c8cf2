import {
  Agent,
  createServer,
  type IncomingMessage,
  type Server as HttpServer,
  type ServerResponse,
} from 'node:http';
import type { Socket } from 'node:net';
import { Server } from 'proxy-chain';
import { join } from './join.ts';
import { EgressError } from './refusal.ts';

/** An agent for one request over a connection that is open already. */
class OneConnection extends Agent {
  readonly #upstream: Socket;

  constructor(upstream: Socket) {
    super({ keepAlive: false });
    this.#upstream = upstream;
  }

  override createConnection(): Socket {
    return this.#upstream;
  }
}

/** What proxy-chain gives an accepted CONNECT to, as a `connection` of it. */
function tunnelTo(upstream: Socket, begins: () => void): HttpServer {
  const server = createServer();
  server.removeAllListeners('connection');
  server.once('connection', (client: Socket) => {
    begins();
    join(client, upstream);
  });
  return server;
}

/** Connects a request to where it wants to go; rejects with EgressError where it may not. */
export type Open = (request: IncomingMessage) => Promise<Socket>;

/** Status and reason; the reason also stands in the status line, as most programs show nothing else of a refused CONNECT. */
export function answer(status: number, message: string): string {
  const line = message.replace(/[^\x20-\x7e]+/g, ' ').slice(0, 500);
  const body = `rollpool: ${line}\n`;
  return [
    `HTTP/1.1 ${status} ${line}`,
    'Connection: close',
    'Content-Type: text/plain; charset=utf-8',
    `Content-Length: ${Buffer.byteLength(body)}`,
    '',
    body,
  ].join('\r\n');
}

/**
 * proxy-chain's server on connections that are handed to it, each for one request. Where a request leads is decided and
 * connected to before proxy-chain acts on it: no name, address or URL is read a second time in another way.
 */
export class EgressServer extends Server {
  readonly #responses = new WeakMap<IncomingMessage, ServerResponse>();

  constructor(open: Open) {
    super({
      prepareRequestFunction: async ({ request, isHttp }) => {
        const upstream = await open(request);
        const drop = (): void => void upstream.destroy();
        request.socket.once('close', drop);
        if (request.socket.destroyed) {
          drop();
          throw new EgressError('bad', 'the sender is gone');
        }
        if (!isHttp) {
          return { customConnectServer: tunnelTo(upstream, () => request.socket.off('close', drop)) };
        }
        this.#answerFor(upstream, request);
        return { httpAgent: new OneConnection(upstream) };
      },
    });
    // A second request on a connection would be one more host to look at, beside the first one's end.
    this.server.maxRequestsPerSocket = 1;
  }

  /** Serves a connection. */
  take(client: Socket): void {
    // A Unix socket has no remote address, which proxy-chain takes for a connection that is gone.
    Object.defineProperty(client, 'remoteAddress', { value: '127.0.0.1' });
    this.server.emit('connection', client);
  }

  override async onRequest(request: IncomingMessage, response: ServerResponse): Promise<void> {
    this.#responses.set(request, response);
    // Else the connection would stay open for some seconds, and answer 503 to whatever comes.
    response.shouldKeepAlive = false;
    return super.onRequest(request, response);
  }

  override onClientError(error: NodeJS.ErrnoException, socket: Socket): void {
    if (error.code === 'HPE_HEADER_OVERFLOW')
      this.sendSocketResponse(socket, 431, {}, 'the headers are too large');
    else super.onClientError(error, socket);
  }

  override sendSocketResponse(socket: Socket, status = 500, _headers = {}, message = ''): void {
    if (!socket.writable) return;
    socket.end(answer(status, message));
    // What else it sends is not read.
    socket.setTimeout(1_000, () => socket.destroy());
  }

  /** Says in words what proxy-chain has status codes of its own for: a host that breaks off, or is silent, unanswered. */
  #answerFor(upstream: Socket, request: IncomingMessage): void {
    const response = this.#responses.get(request);
    const fail = (status: number, what: string): void => {
      if (response === undefined || response.headersSent) return;
      const host = request.headers.host ?? '';
      response.writeHead(status, { connection: 'close', 'content-type': 'text/plain; charset=utf-8' });
      response.end(`rollpool: ${host} ${what}\n`);
    };
    upstream.once('timeout', () => fail(504, 'is connected and does not answer'));
    for (const event of ['error', 'end', 'close']) {
      upstream.once(event, () => fail(502, 'broke off before it answered'));
    }
  }
}
