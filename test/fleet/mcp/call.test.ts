import { expect, test } from 'vitest';
import { until } from '../../support/wait.ts';
import { startToolServer, tool, type ToolServerOptions } from './tool-server.ts';
import { connectionsClosed, soon, toolsOf } from './tool-sets.ts';
import { failureOf } from '../../support/failure-of.ts';

const readOnly = { annotations: { readOnlyHint: true } };
const bookAndLook = (): ReturnType<typeof tool>[] => [tool('book'), tool('look', readOnly)];

type Fault = NonNullable<ToolServerOptions['fault']>;

/** A fault in the first `count` calls of tools. */
function callFault(count: number, fault: Fault): Fault {
  let left = count;
  return (request, response, message) =>
    message.method === 'tools/call' && left-- > 0 ? fault(request, response, message) : false;
}

test('a tool that there is not is an error result that names those there are', async () => {
  await using server = await startToolServer({ tools: bookAndLook });
  await using set = toolsOf([server]);
  await set.list(soon);
  expect(await set.call('cook', {}, soon)).toEqual({
    text: 'There is no tool "cook". The tools are: book, look.',
    images: [],
    is_error: true,
  });
  expect(set.metrics).toMatchObject({ tool_calls: 1, tool_errors: 1, tool_retries: 0, tool_unanswered: 0 });
});

test('arguments and answer pass as they are', async () => {
  await using server = await startToolServer();
  await using set = toolsOf([server]);
  await set.list(soon);
  const args = { text: 'ünï 🎫', nested: { list: [1, null, true] } };
  expect(await set.call('echo', args, soon)).toEqual({
    text: JSON.stringify(args),
    images: [],
    is_error: false,
  });
});

test('one session per endpoint serves the whole episode', async () => {
  await using server = await startToolServer();
  await using set = toolsOf([server]);
  await set.list(soon);
  for (let call = 0; call < 5; call++) await set.call('echo', { call }, soon);
  await Promise.all([set.call('echo', {}, soon), set.call('echo', {}, soon)]);
  expect(server.seen.filter((request) => request === 'POST initialize')).toHaveLength(1);
  expect(server.seen.filter((request) => request.startsWith('GET'))).toEqual([]);
  expect(set.metrics.mcp_sessions_reopened).toBe(0);
});

test.each([502, 503, 429])('a call that a %i kept from the server is made again, once', async (status) => {
  await using server = await startToolServer({
    tools: bookAndLook,
    fault: callFault(2, (_request, response) => {
      response.writeHead(status).end();
      return true;
    }),
  });
  await using set = toolsOf([server]);
  await set.list(soon);
  expect(await set.call('book', {}, soon)).toMatchObject({ is_error: false });
  expect(server.carriedOut).toEqual(['book']);
  expect(set.metrics.tool_retries).toBe(2);
});

test.each(['cut', 504, 500] as const)(
  'a call that may have been carried out (%s) is not repeated when that could do it twice',
  async (how) => {
    await using server = await startToolServer({
      tools: bookAndLook,
      fault: callFault(1, (_request, response) => {
        if (how === 'cut') response.destroy();
        else response.writeHead(how).end('slow upstream');
        return true;
      }),
    });
    await using set = toolsOf([server]);
    await set.list(soon);
    const booked = await set.call('book', {}, soon);
    expect(booked).toMatchObject({ is_error: true });
    expect(booked.text).toContain('The call may have been carried out all the same.');
    expect(server.carriedOut).toEqual([]);
    expect(await set.call('book', {}, soon)).toMatchObject({ is_error: false });
    expect(set.metrics).toMatchObject({ tool_retries: 0, tool_errors: 1, tool_unanswered: 1 });
  },
);

test.each(['cut', 504] as const)('a call that only reads is repeated (%s)', async (how) => {
  await using server = await startToolServer({
    tools: bookAndLook,
    fault: callFault(2, (_request, response) => {
      if (how === 'cut') response.destroy();
      else response.writeHead(how).end();
      return true;
    }),
  });
  await using set = toolsOf([server]);
  await set.list(soon);
  expect(await set.call('look', {}, soon)).toMatchObject({ is_error: false });
  expect(set.metrics.tool_retries).toBe(2);
});

test('an event stream that ends without an answer is noticed at once', async () => {
  await using server = await startToolServer({
    tools: bookAndLook,
    fault: callFault(1, (_request, response) => {
      response.writeHead(200, { 'content-type': 'text/event-stream' }).end(': nothing more\n\n');
      return true;
    }),
  });
  await using set = toolsOf([server]);
  await set.list(soon);
  const result = await set.call('book', {}, soon);
  expect(result.text).toContain('the server closed the stream without an answer');
  expect(set.metrics.mcp_sessions_reopened).toBe(0);
  expect(await set.call('book', {}, soon)).toMatchObject({ is_error: false });
  expect(set.metrics.mcp_sessions_reopened).toBe(1);
  await until(() => server.sessions.size === 1, 'the doubtful session was ended');
});

test.each([
  ['text/html', '<html>starting</html>'],
  ['application/json', '{"jsonrpc":"2.0","id":987654,"result":{}}'],
  ['application/json', 'not json'],
])('an answer of 200 that is none (%s %s) is noticed at once', async (type, body) => {
  await using server = await startToolServer({
    tools: bookAndLook,
    json: true,
    fault: callFault(1, (_request, response) => {
      response.writeHead(200, { 'content-type': type }).end(body);
      return true;
    }),
  });
  await using set = toolsOf([server]);
  await set.list(soon);
  expect(await set.call('book', {}, soon)).toMatchObject({ is_error: true });
  expect(await set.call('look', {}, soon)).toMatchObject({ is_error: false });
});

test.each([404, 400])(
  'a session dropped in mid-episode (%i) is opened again, and the call made once',
  async (status) => {
    let dropped = false;
    await using server = await startToolServer({
      tools: bookAndLook,
      fault: (_request, response, { method }) => {
        if (!dropped || method !== 'tools/call') return false;
        dropped = false;
        response.writeHead(status, { 'content-type': 'application/json' });
        response.end(
          '{"jsonrpc":"2.0","error":{"code":-32000,"message":"Bad Request: no valid session"},"id":null}',
        );
        return true;
      },
    });
    await using set = toolsOf([server], { timings: { backoff_ms: [1_000_000] } });
    await set.list(soon);
    await set.call('book', {}, soon);
    server.forget();
    dropped = true;
    expect(await set.call('book', {}, soon)).toMatchObject({ is_error: false });
    expect(server.carriedOut).toEqual(['book', 'book']);
    expect(set.metrics).toMatchObject({ mcp_sessions_reopened: 1, tool_retries: 1, tool_errors: 0 });
  },
);

test('a request that the server calls bad in a fresh session is not sent again and again', async () => {
  await using server = await startToolServer({
    fault: (_request, response, { method }) => {
      if (method !== 'tools/call') return false;
      response.writeHead(400).end('no such thing');
      return true;
    },
  });
  await using set = toolsOf([server]);
  await set.list(soon);
  const result = await set.call('echo', {}, soon);
  expect(result).toMatchObject({ is_error: true });
  expect(result.text).toContain('HTTP 400: no such thing');
  expect(server.seen.filter((request) => request === 'POST tools/call')).toHaveLength(2);
});

test('a server that comes back after being killed between calls serves the next one', async () => {
  let server = await startToolServer({ tools: bookAndLook });
  await using set = toolsOf([server]);
  await set.list(soon);
  const { port } = server;
  await server[Symbol.asyncDispose]();
  await connectionsClosed();
  const booked = set.call('book', {}, soon);
  await until(() => set.metrics.tool_retries > 0, 'the call was tried again');
  server = await startToolServer({ port, tools: bookAndLook });
  await using _server = server;
  expect(await booked).toMatchObject({ is_error: false });
  expect(server.carriedOut).toEqual(['book']);
  expect(set.metrics.mcp_sessions_reopened).toBe(1);
});

test('a server killed in mid-call with its instance ends the episode: infra, agent phase', async () => {
  let gone = false;
  await using server = await startToolServer({
    fault: callFault(1, () => {
      gone = true;
      server.cut();
      return true;
    }),
  });
  await using set = toolsOf([server], { isGone: async () => gone });
  await set.list(soon);
  expect(await failureOf(set.call('echo', {}, soon))).toMatchObject({
    class: 'infra',
    phase: 'agent',
    code: 'environment_gone',
    retryable: true,
  });
});

test.each([
  [
    'rejects',
    async () => {
      throw new Error('the provider is away');
    },
  ],
  ['does not answer', () => new Promise<boolean>(() => undefined)],
])('a provider that %s when asked leaves the failure a result', async (_how, isGone) => {
  await using server = await startToolServer({
    fault: callFault(1, (_request, response) => {
      response.destroy();
      return true;
    }),
  });
  await using set = toolsOf([server], { isGone, timings: { gone_ms: 100 } });
  await set.list(soon);
  expect(await set.call('echo', {}, soon)).toMatchObject({ is_error: true });
});

test('a hanging call ends with its cap, and the model is told in seconds', async () => {
  await using server = await startToolServer({ tools: bookAndLook, fault: callFault(1, () => true) });
  await using set = toolsOf([server], { timings: { operation_ms: 1_000 } });
  await set.list(soon);
  expect(await set.call('book', {}, soon)).toEqual({
    text: 'The tool book did not answer within 1 second. The call may have been carried out all the same.',
    images: [],
    is_error: true,
  });
  await until(() => server.seen.includes('POST notifications/cancelled'), 'the server was told');
  expect(await set.call('book', {}, soon)).toMatchObject({ is_error: false });
});

test('a hanging call that only reads is tried again after its cap', async () => {
  await using server = await startToolServer({ tools: bookAndLook, fault: callFault(1, () => true) });
  await using set = toolsOf([server], { timings: { operation_ms: 200 } });
  await set.list(soon);
  expect(await set.call('look', {}, soon)).toMatchObject({ is_error: false });
  expect(set.metrics.tool_retries).toBe(1);
});

test('a server that stays away is given up when the time of all tries is over', async () => {
  const server = await startToolServer();
  await using set = toolsOf([server]);
  await set.list(soon);
  await server[Symbol.asyncDispose]();
  await connectionsClosed();
  const result = await set.call('echo', {}, { ...soon, timeout_ms: 1_000 });
  expect(result).toMatchObject({ is_error: true });
  expect(result.text).toMatch(/^The tool echo could not be reached within 1 second: .*ECONNREFUSED/);
  expect(set.metrics.tool_retries).toBeGreaterThan(2);
});

test('a slow tool is waited for', async () => {
  await using server = await startToolServer({
    call: () =>
      new Promise((resolve) =>
        setTimeout(() => resolve({ content: [{ type: 'text', text: 'at last' }] }), 300),
      ),
  });
  await using set = toolsOf([server]);
  await set.list(soon);
  expect(await set.call('echo', {}, soon)).toMatchObject({ text: 'at last', is_error: false });
});

test('an error of JSON-RPC is a result in the words of the server, never tried again', async () => {
  await using server = await startToolServer({
    call: () => {
      throw Object.assign(new Error('parameter "city" is missing'), { code: -32602 });
    },
  });
  await using set = toolsOf([server]);
  await set.list(soon);
  expect(await set.call('echo', {}, soon)).toEqual({
    text: 'The tool echo refused the call: parameter "city" is missing',
    images: [],
    is_error: true,
  });
  expect(server.carriedOut).toHaveLength(1);
});

test('an error of the tool is a result', async () => {
  await using server = await startToolServer({
    call: () => ({ isError: true, content: [{ type: 'text', text: 'sold out' }] }),
  });
  await using set = toolsOf([server]);
  await set.list(soon);
  expect(await set.call('echo', {}, soon)).toEqual({ text: 'sold out', images: [], is_error: true });
});

test('a key that a tool echoes does not reach the model', async () => {
  await using server = await startToolServer({
    call: () => ({ content: [{ type: 'text', text: 'called with Bearer sk_very_secret' }] }),
  });
  await using set = toolsOf([server]);
  await set.list(soon);
  expect((await set.call('echo', {}, soon)).text).toBe('called with Bearer [redacted]');
});

test('an abort during a call, or between its tries, comes out at once with its reason', async () => {
  await using server = await startToolServer({ fault: callFault(1, () => true) });
  await using set = toolsOf([server], { timings: { backoff_ms: [1_000_000] } });
  await set.list(soon);
  const controller = new AbortController();
  const hanging = set.call('echo', {}, { timeout_ms: 90_000, signal: controller.signal });
  await until(() => server.seen.includes('POST tools/call'), 'the call is on its way');
  controller.abort(new Error('budget spent'));
  await expect(hanging).rejects.toThrow('budget spent');
  await expect(set.call('echo', {}, { ...soon, signal: controller.signal })).rejects.toThrow('budget spent');

  await server[Symbol.asyncDispose]();
  await connectionsClosed();
  const again = new AbortController();
  const waiting = set.call('echo', {}, { timeout_ms: 2_000_000, signal: again.signal });
  await until(() => set.metrics.tool_calls === 2, 'the call began');
  again.abort(new Error('enough'));
  await expect(waiting).rejects.toThrow('enough');
});

test('a stream that was cut off and can be resumed brings the answer of the one call that was made', async () => {
  const events = new Map<string, { stream: string; message: unknown }>();
  let sequence = 0;
  await using server = await startToolServer({
    eventStore: {
      async storeEvent(stream, message) {
        const id = String(++sequence).padStart(9, '0');
        events.set(id, { stream, message });
        return id;
      },
      async replayEventsAfter(last, { send }) {
        const from = events.get(last);
        if (from === undefined) throw new Error('no such event');
        for (const [id, { stream, message }] of events) {
          if (stream === from.stream && id > last && Object.keys(message as object).length > 0) {
            await send(id, message as Parameters<typeof send>[1]);
          }
        }
        return from.stream;
      },
    },
    call: (_name, _args, closeStream) => {
      closeStream?.();
      return { content: [{ type: 'text', text: `carried out ${server.carriedOut.length} times` }] };
    },
  });
  await using set = toolsOf([server]);
  await set.list(soon);
  expect(await set.call('echo', {}, soon)).toMatchObject({ text: 'carried out 1 times', is_error: false });
  expect(server.seen.filter((request) => request.startsWith('GET')).length).toBeGreaterThan(0);
});
