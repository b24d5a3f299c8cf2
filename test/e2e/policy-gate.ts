import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { decodeTokens } from '../../src/policy/index.ts';

type Mode =
  { readonly kind: 'open' } | { readonly kind: 'held' } | { readonly kind: 'failing'; readonly text: string };

/**
 * Stands before a policy and decides when the calls of episodes get their answers, so that a test can act while they
 * are on their way. Probes pass: they are told apart by not offering the tools of the episodes, one of which is `mark`.
 */
export interface PolicyGate extends AsyncDisposable {
  readonly url: string;
  /** Calls of episodes that wait here now. */
  waiting(): number;
  /** Calls of episodes that came, in all. */
  seen(): number;
  /** Those that were answered. */
  answered(): number;
  /** Lets `count` more calls through and holds those that follow. Default: 0. */
  hold(count?: number): void;
  /** Answers calls that hold `text` with status 500. Default: all. */
  fail(text?: string): void;
  /** Lets everything through, what waits too. */
  open(): void;
}

/** What a call for an answer says, ids as the text that they stand for; empty for any other request. */
function saidIn(url: string, body: Buffer): string {
  if (url.endsWith('/chat/completions')) return body.toString();
  if (!url.endsWith('/completions')) return '';
  return decodeTokens((JSON.parse(body.toString()) as { prompt: number[] }).prompt);
}

export async function openPolicyGate(policyUrl: string, mark = '"Bash"'): Promise<PolicyGate> {
  let mode: Mode = { kind: 'open' };
  let free = 0;
  let seen = 0;
  let answered = 0;
  const waiting = new Set<() => void>();

  const passOn = async (request: IncomingMessage, response: ServerResponse, body: Buffer): Promise<void> => {
    const gone = new AbortController();
    response.once('close', () => gone.abort());
    const { authorization } = request.headers;
    const answer = await fetch(policyUrl + request.url, {
      method: request.method ?? 'GET',
      headers: {
        'content-type': 'application/json',
        ...(authorization === undefined ? {} : { authorization }),
      },
      ...(body.length > 0 ? { body } : {}),
      signal: gone.signal,
    });
    const text = await answer.text();
    response.writeHead(answer.status, { 'content-type': 'application/json' });
    response.end(text);
  };

  const serve = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk as Buffer);
    const body = Buffer.concat(chunks);
    const said = saidIn(request.url ?? '', body);
    const isEpisodes = said.includes(mark);
    if (isEpisodes) {
      seen += 1;
      if (mode.kind === 'failing' && said.includes(mode.text)) {
        response.writeHead(500, { 'content-type': 'application/json' });
        response.end('{"error":{"message":"out of order","type":"InternalServerError","code":500}}');
        return;
      }
      if (mode.kind === 'held' && free > 0) free -= 1;
      else if (mode.kind === 'held') {
        const left = await new Promise<boolean>((resolve) => {
          const go = (): void => resolve(false);
          waiting.add(go);
          response.once('close', () => {
            waiting.delete(go);
            resolve(true);
          });
        });
        if (left) return;
      }
    }
    await passOn(request, response, body);
    if (isEpisodes) answered += 1;
  };

  const server = createServer((request, response) => {
    // A client or a policy that hangs up in the middle is what some tests are about.
    serve(request, response).catch(() => response.destroy());
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const release = (): void => {
    for (const go of waiting) go();
    waiting.clear();
  };
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    waiting: () => waiting.size,
    seen: () => seen,
    answered: () => answered,
    hold: (count = 0) => {
      mode = { kind: 'held' };
      free = count;
    },
    fail: (text = '') => {
      mode = { kind: 'failing', text };
    },
    open: () => {
      mode = { kind: 'open' };
      release();
    },
    [Symbol.asyncDispose]: async () => {
      release();
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}
