import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { describe, expect, test } from 'vitest';
import { parseScripts, startScriptedPolicy } from '../../../src/policy/index.ts';
import { buildSequences } from '../../../src/trajectory/index.ts';
import { foldEvents } from '../dialects/strict-stream.ts';
import { json, type Loose } from '../support/fake-vllm.ts';
import { events, messages, openGateway } from '../support/open-gateway.ts';

const tools = [{ name: 'Bash', input_schema: { type: 'object', properties: {} } }];

const call = (given: string): Loose => ({ name: 'Bash', arguments: given });
const turns = [
  { text: 'Shall I?' },
  { tool_calls: [call('{"a" : 1}')] },
  { text: 'Again.', tool_calls: [call('{"b": 1.0}')] },
  { text: 'Done.' },
];

/** Plays instead of the policy's answer to a route; `answer` is what the policy says. */
type Rule = (response: ServerResponse, answer: () => Promise<Loose>) => unknown;
type Rules = Readonly<Record<string, Rule>>;

interface Routes extends AsyncDisposable {
  readonly url: string;
  readonly asked: string[];
}

/** A policy of which some routes are unruly. */
async function unrulyRoutes(url: string, rules: Rules): Promise<Routes> {
  const asked: string[] = [];
  const forward = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk as Buffer);
    const path = request.url ?? '';
    asked.push(path);
    const get = (): Promise<Response> =>
      fetch(`${url}${path}`, {
        method: request.method ?? 'GET',
        headers: { 'content-type': 'application/json' },
        ...(request.method === 'POST' ? { body: Buffer.concat(chunks) } : {}),
      });
    const rule = rules[path];
    if (rule !== undefined) {
      await rule(response, async () => (await get()).json());
      return;
    }
    const answer = await get();
    response.writeHead(answer.status, { 'content-type': answer.headers.get('content-type') ?? '' });
    response.end(Buffer.from(await answer.arrayBuffer()));
  };
  const server = createServer((request, response) => void forward(request, response));
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    asked,
    async [Symbol.asyncDispose]() {
      const closed = new Promise((resolve) => server.close(resolve));
      server.closeAllConnections();
      await closed;
    },
  };
}

const fails =
  (status: number): Rule =>
  (response) =>
    json(response, status, { error: { message: 'no' } });
const hangs: Rule = () => undefined;
const tokens =
  (change: (ids: number[]) => unknown[]): Rule =>
  async (response, answer) => {
    const said = await answer();
    json(response, 200, { ...said, tokens: change(said.tokens) });
  };

async function play(rules: Rules, streaming: boolean, engine: 'vllm' | 'sglang' = 'vllm') {
  await using policy = await startScriptedPolicy({
    scripts: parseScripts({ schema: 'rollpool.scripts/1', scripts: [{ match: 'Task A', turns }] }),
    engine,
    seed: 5,
    model: 'policy',
  });
  await using unruly = await unrulyRoutes(policy.url, rules);
  await using opened = await openGateway(unruly.url, {
    policy: { engine, streaming, callFormat: 'hermes' },
    limits: { turn_seconds: 8 },
  });
  let history: Loose[] = [{ role: 'user', content: 'Task A' }];
  for (const [turn] of turns.entries()) {
    const response = await messages(opened.session, history, { tools, stream: streaming, max_tokens: 300 });
    const text = await response.text();
    expect(response.status, text).toBe(200);
    const { content }: Loose = streaming ? foldEvents(events(text)) : JSON.parse(text);
    const results = content
      .filter(({ type }: Loose) => type === 'tool_use')
      .map(({ id }: Loose) => ({ type: 'tool_result', tool_use_id: id, content: 'ok' }));
    history = [
      ...history,
      { role: 'assistant', content },
      { role: 'user', content: turn === 0 ? 'Yes.' : results },
    ];
  }
  const records = await opened.session.finish();
  expect(records.map(({ fate }) => fate)).toEqual(turns.map(() => 'delivered'));
  const sampled = policy.samples().map(({ token_ids: ids, logprobs }) => [[...ids], [...logprobs]]);
  for (const { token_ids: ids, logprobs } of records)
    expect(sampled).toContainEqual([[...ids!], [...logprobs!]]);
  const { sequences } = buildSequences(records);
  for (const { certificate } of sequences) expect(certificate.reasons).toEqual([]);
  return unruly.asked;
}

describe.each([false, true])('an episode ends as one of text does, streamed: %s, where', (streaming) => {
  test.each<[string, Rules]>([
    ['no prompt is rendered in time', { '/tokenize': hangs }],
    ['ids are written as text by nobody', { '/detokenize': hangs }],
    ['writing ids as text fails', { '/detokenize': fails(500) }],
    ['the route that takes ids is gone', { '/v1/completions': fails(404) }],
    ['the route that takes ids refuses them', { '/v1/completions': fails(400) }],
    ['rendered ids are none of the vocabulary', { '/tokenize': tokens((ids) => [...ids, 2_000_000]) }],
    ['a rendering never ends', { '/tokenize': tokens((ids) => [...ids, ...new Array(200_000).fill(7)]) }],
    ['a rendering is empty', { '/tokenize': tokens(() => []) }],
    ['rendered ids are negative', { '/tokenize': tokens((ids) => ids.map((id) => -id)) }],
    ['rendered ids are in another order', { '/tokenize': tokens((ids) => ids.toReversed()) }],
  ])('%s', async (_name, rules) => {
    await play(rules, streaming);
  });
});

test.each<[string, Rules]>([
  ['/generate is gone', { '/generate': fails(404) }],
  ['ids are written as text by nobody', { '/detokenize': hangs }],
])('the same for SGLang, where %s', async (_name, rules) => {
  await play(rules, false, 'sglang');
});

test('a replica that rendered nothing in time is not asked to again with the next call', async () => {
  const asked = await play({ '/tokenize': hangs }, false);
  expect(asked.filter((path) => path === '/tokenize')).toHaveLength(1);
});
