// The baseline of bench/gateway, in a process of its own: the least that a gateway of http and undici does. It parses the
// agent's request, builds the policy's, parses its answer, keeps the arrays and builds the agent's; nothing else.
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { Pool } from 'undici';
import { tellCpu } from './gateway-load.ts';

/* eslint-disable @typescript-eslint/no-explicit-any, @typescript-eslint/no-unsafe-assignment, @typescript-eslint/no-unsafe-member-access,
   @typescript-eslint/no-unsafe-call, @typescript-eslint/no-unsafe-return, @typescript-eslint/no-unsafe-argument --
   what the minimal proxy takes for granted, as such proxies do */

const pool = new Pool(process.argv[2] ?? '', { headersTimeout: 0, bodyTimeout: 0 });
const kept: unknown[] = [];

function openaiMessages({ system, messages }: any): unknown[] {
  const made: unknown[] = [{ role: 'system', content: system.map((block: any) => block.text).join('\n\n') }];
  for (const { role, content } of messages) {
    if (typeof content === 'string') made.push({ role, content });
    else if (role === 'assistant') {
      const calls = content.map(({ id, name, input }: any) => ({
        id,
        type: 'function',
        function: { name, arguments: JSON.stringify(input) },
      }));
      made.push({ role, content: null, tool_calls: calls });
    } else {
      for (const block of content)
        made.push({ role: 'tool', tool_call_id: block.tool_use_id, content: block.content });
    }
  }
  return made;
}

const server = createServer({ keepAliveTimeout: 600_000 }, (request, response) => {
  const chunks: Buffer[] = [];
  request.on('data', (chunk: Buffer) => chunks.push(chunk));
  request.on('end', () => {
    const asked = JSON.parse(Buffer.concat(chunks).toString());
    const tools = asked.tools.map(({ name, description, input_schema }: any) => ({
      type: 'function',
      function: { name, description, parameters: input_schema },
    }));
    const body = JSON.stringify({
      model: 'bench',
      messages: openaiMessages(asked),
      tools,
      max_tokens: asked.max_tokens,
      temperature: 1,
      logprobs: true,
      top_logprobs: 0,
      return_token_ids: true,
    });
    void pool
      .request({
        method: 'POST',
        path: '/v1/chat/completions',
        headers: { 'content-type': 'application/json' },
        body,
      })
      .then(async (reply) => {
        const answer = JSON.parse(await reply.body.text());
        const choice = answer.choices[0];
        kept.push({
          prompt: Int32Array.from(answer.prompt_token_ids),
          ids: Int32Array.from(choice.token_ids),
          logprobs: Float32Array.from(choice.logprobs.content, (entry: any) => entry.logprob),
        });
        if (kept.length > 25) kept.shift();
        const payload = Buffer.from(
          JSON.stringify({
            id: 'msg_1',
            type: 'message',
            role: 'assistant',
            model: asked.model,
            content: [{ type: 'text', text: choice.message.content }],
            stop_reason: 'end_turn',
            stop_sequence: null,
            usage: {
              input_tokens: answer.usage.prompt_tokens,
              output_tokens: answer.usage.completion_tokens,
            },
          }),
        );
        response.writeHead(200, { 'content-type': 'application/json', 'content-length': payload.length });
        response.end(payload);
      });
  });
});
server.listen(0, '127.0.0.1', () => {
  process.send?.({ url: `http://127.0.0.1:${(server.address() as AddressInfo).port}` });
});
process.on('message', tellCpu);
process.once('disconnect', () => process.exit());
