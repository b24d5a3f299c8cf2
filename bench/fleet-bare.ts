// The baseline of bench/fleet: the same requests of one episode with the bare MCP client and fetch, nothing recorded.
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { verifierCall } from '../src/fleet/verifier/call.ts';
import { benchTask, calls, fleetKey, prompt, verifierCode } from './fleet-episode.ts';

const [, , fleet = '', policy = '', model = '', count = '40', warm = '10'] = process.argv;
const headers = { authorization: `Bearer ${fleetKey}`, 'content-type': 'application/json' };

async function json<T>(url: string, method: string, body?: unknown): Promise<T> {
  const response = await fetch(url, {
    method,
    headers,
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
  if (!response.ok) throw new Error(`${method} ${url}: ${response.status} ${await response.text()}`);
  return (await response.json()) as T;
}

interface Made {
  readonly instance_id: string;
  readonly urls: { readonly root: string };
}

async function episode(): Promise<void> {
  const made = await json<Made>(`${fleet}/v1/env/instances`, 'POST', { env_key: 'bike-workshop' });
  const clients: Client[] = [];
  const tools: unknown[] = [];
  for (const path of ['mcp', 'api/v1/mcp']) {
    const client = new Client({ name: 'bare', version: '1.0.0' });
    const transport = new StreamableHTTPClientTransport(new URL(path, made.urls.root), {
      requestInit: { headers: { authorization: headers.authorization } },
    });
    await client.connect(transport);
    const listed = await client.listTools();
    if (clients.length === 0) {
      tools.push(
        ...listed.tools.map(({ name, description, inputSchema }) => ({
          type: 'function',
          function: { name, description, parameters: inputSchema },
        })),
      );
    }
    clients.push(client);
  }
  const messages: unknown[] = [{ role: 'user', content: prompt }];
  for (let turn = 0; turn <= calls.length; turn++) {
    const answer = await json<{ choices: { message: { tool_calls?: { id: string }[] } }[] }>(
      `${policy}/v1/chat/completions`,
      'POST',
      { model, messages, tools, logprobs: true, top_logprobs: 0, return_token_ids: true, max_tokens: 4096 },
    );
    const message = answer.choices[0]?.message;
    messages.push(message);
    const call = calls[turn];
    if (call === undefined) break;
    const result = await clients[0]?.callTool({ name: call.name, arguments: call.arguments });
    const [content] = (result?.content ?? []) as { text?: string }[];
    messages.push({ role: 'tool', tool_call_id: message?.tool_calls?.[0]?.id, content: content?.text ?? '' });
  }
  for (const client of clients) {
    await (client.transport as StreamableHTTPClientTransport | undefined)?.terminateSession();
    await client.close();
  }
  const { bundle, body } = verifierCall({
    task: benchTask('bare'),
    code: verifierCode,
    instance_id: made.instance_id,
    final_answer: null,
    conversation: [],
    timeout_seconds: 30,
  });
  await json(`${fleet}/v1/verifiers/execute`, 'POST', {
    ...body,
    bundle: Buffer.from(bundle).toString('base64'),
  });
  await json(`${fleet}/v1/env/instances/${made.instance_id}`, 'DELETE');
}

for (let at = 0; at < Number(warm); at++) await episode();
const before = process.cpuUsage();
for (let at = 0; at < Number(count); at++) await episode();
const { user, system } = process.cpuUsage(before);
process.send?.({ cpu_ms: (user + system) / 1000 / Number(count) });
process.disconnect();
