// The fake policy of bench/gateway, in a process of its own: answers at once, by the size of what it is asked.
import { createServer, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { setImmediate as turn } from 'node:timers/promises';
import {
  answerBody,
  answerChunks,
  completionBody,
  renderedIds,
  shapes,
  type Size,
} from './gateway-bodies.ts';
import { tellCpu } from './gateway-load.ts';

const answers = { large: answerBody('large'), small: answerBody('small') };
const chunks = { large: answerChunks('large'), small: answerChunks('small') };

/** Answers that wait for their release, and how many are to wait. */
let held: (() => void)[] = [];
let holding = 0;

/** A chunk in each turn of the event loop: an engine writes them while it samples, never all at once. */
async function stream(response: ServerResponse, list: readonly Buffer[]): Promise<void> {
  for (const chunk of list) {
    response.write(chunk);
    await turn();
  }
  response.end();
}

interface IdRequest {
  readonly messages?: readonly { content?: unknown }[];
  readonly prompt?: readonly number[];
}

/** Renders, or answers, the large size's conversations. */
function answerIds(response: ServerResponse, { messages, prompt }: IdRequest): void {
  const tokens = messages === undefined ? [] : renderedIds('large', messages);
  const answer =
    prompt === undefined
      ? Buffer.from(JSON.stringify({ count: tokens.length, max_model_len: 131_072, tokens }))
      : completionBody('large', prompt);
  response.writeHead(200, { 'content-type': 'application/json', 'content-length': answer.length });
  response.end(answer);
}

const server = createServer({ keepAliveTimeout: 600_000 }, (request, response) => {
  let bytes = 0;
  let streams = false;
  const ids = request.url === '/tokenize' || request.url === '/v1/completions';
  const body: Buffer[] = [];
  request.on('data', (chunk: Buffer) => {
    bytes += chunk.length;
    if (ids) body.push(chunk);
    streams ||= chunk.includes('"stream":true');
  });
  request.on('end', () => {
    if (request.method !== 'POST') {
      response
        .writeHead(200, { 'content-type': 'application/json' })
        .end('{"data":[{"id":"bench","object":"model"}]}');
      return;
    }
    if (ids) {
      answerIds(response, JSON.parse(Buffer.concat(body).toString()) as IdRequest);
      return;
    }
    const size: Size =
      bytes > (shapes.small.requestBytes + shapes.large.requestBytes) / 2 ? 'large' : 'small';
    if (held.length < holding) {
      held.push(() => response.writeHead(200, { 'content-type': 'application/json' }).end(answers[size]));
      if (held.length === holding) process.send?.({ held: holding });
    } else if (streams) {
      response.writeHead(200, { 'content-type': 'text/event-stream' });
      void stream(response, chunks[size]);
    } else {
      response.writeHead(200, { 'content-type': 'application/json', 'content-length': answers[size].length });
      response.end(answers[size]);
    }
  });
});
server.listen(0, '127.0.0.1', () => {
  process.send?.({ url: `http://127.0.0.1:${(server.address() as AddressInfo).port}` });
});
process.on('message', (asked: { hold?: number; release?: true }) => {
  if (asked.hold !== undefined) holding = asked.hold;
  else if (asked.release === true) {
    for (const answer of held) answer();
    held = [];
    holding = 0;
  } else tellCpu();
});
process.once('disconnect', () => process.exit());
