import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';

export interface SeenRequest {
  readonly method: string;
  /** Path with its query. */
  readonly url: string;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  // eslint-disable-next-line @typescript-eslint/no-explicit-any -- a test knows what it sent
  readonly body: any;
}

/** What is answered: JSON by default; `cut` ends the connection, `hang` never answers. */
export type Reply =
  | { readonly status?: number; readonly json: unknown; readonly headers?: Readonly<Record<string, string>> }
  | { readonly status?: number; readonly text: string; readonly headers?: Readonly<Record<string, string>> }
  | 'cut'
  | 'hang';

export interface ScriptedServer extends AsyncDisposable {
  readonly url: string;
  /** In the order they came. */
  readonly seen: SeenRequest[];
  /** `METHOD path` of each, without queries. */
  readonly calls: () => string[];
}

/** A real HTTP server on this machine that answers as `reply` says. */
export async function scriptedServer(
  reply: (request: SeenRequest, index: number) => Reply | Promise<Reply>,
): Promise<ScriptedServer> {
  const seen: SeenRequest[] = [];
  const handle = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk as Buffer);
    const text = Buffer.concat(chunks).toString();
    const got: SeenRequest = {
      method: request.method ?? '',
      url: request.url ?? '',
      headers: request.headers,
      body: text === '' ? undefined : JSON.parse(text),
    };
    seen.push(got);
    const answer = await reply(got, seen.length - 1);
    if (answer === 'hang') return;
    if (answer === 'cut') {
      response.socket?.destroy();
      return;
    }
    const isJson = 'json' in answer;
    response.writeHead(answer.status ?? 200, {
      'content-type': isJson ? 'application/json' : 'text/html',
      ...answer.headers,
    });
    response.end(isJson ? JSON.stringify(answer.json) : answer.text);
  };
  const server = createServer((request, response) => {
    // A client that goes away in the middle of its request is nothing to fail for.
    handle(request, response).catch(() => response.socket?.destroy());
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    seen,
    calls: () => seen.map(({ method, url }) => `${method} ${url.replace(/\?.*/, '')}`),
    [Symbol.asyncDispose]: async () => {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}
