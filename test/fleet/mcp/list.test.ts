import { expect, test } from 'vitest';
import type { ToolSet } from '../../../src/fleet/mcp/tool-set.ts';
import { startToolServer, tool } from './tool-server.ts';
import { freePort, soon, toolsOf } from './tool-sets.ts';
import { failureOf } from '../../support/failure-of.ts';

async function names(set: ToolSet, options = soon): Promise<string[]> {
  return (await set.list(options)).map(({ function: { name } }) => name);
}

const kinds = [
  { stateless: false, json: false },
  { stateless: false, json: true },
  { stateless: true, json: false },
  { stateless: true, json: true },
];

test.each(kinds)(
  'the union of both endpoints comes in their order, stateless $stateless, json $json',
  async (kind) => {
    await using first = await startToolServer({
      ...kind,
      tools: () => [tool('a', { description: 'one' }), tool('b')],
    });
    await using second = await startToolServer({
      ...kind,
      tools: () => [tool('a'), tool('computer'), tool('c')],
    });
    await using set = toolsOf([first, second]);
    const tools = await set.list(soon);
    expect(tools.map(({ function: { name } }) => name)).toEqual(['a', 'b', 'c']);
    expect(tools[0]?.function.description).toBe('one');
    expect(tools[0]?.function.parameters).toEqual({ type: 'object', properties: {}, required: [] });
    await set.call('a', {}, soon);
    expect(first.carriedOut).toEqual(['a']);
    expect(second.carriedOut).toEqual([]);
    expect(first.headers.every((headers) => headers.authorization === 'Bearer sk_very_secret')).toBe(true);
    expect(set.metrics).toMatchObject({
      mcp_endpoints: 2,
      mcp_endpoint_missing: false,
      tools: 3,
      tool_calls: 1,
    });
  },
);

test('a list of many pages is read to its end', async () => {
  const all = Array.from({ length: 25 }, (_, index) => tool(`t${index}`));
  await using server = await startToolServer({ tools: () => all, pageSize: 10 });
  await using set = toolsOf([server]);
  expect(await names(set)).toEqual(all.map(({ name }) => name));
});

test('a cursor that comes back ends the list', async () => {
  await using server = await startToolServer({
    json: true,
    fault: (_request, response, { method, id }) => {
      if (method !== 'tools/list') return false;
      response.writeHead(200, { 'content-type': 'application/json' });
      response.end(
        JSON.stringify({
          jsonrpc: '2.0',
          id,
          result: { tools: [tool('a'), { name: 7 }], nextCursor: 'again' },
        }),
      );
      return true;
    },
  });
  await using set = toolsOf([server]);
  expect(await names(set)).toEqual(['a']);
});

test.each([404, 405, 501])(
  'an endpoint that answers %i is done without when the other has tools',
  async (status) => {
    await using first = await startToolServer({
      fault: (_request, response) => {
        response.writeHead(status).end('nothing here');
        return true;
      },
    });
    await using second = await startToolServer({ tools: () => [tool('a')] });
    await using set = toolsOf([first, second]);
    expect(await names(set)).toEqual(['a']);
    expect(set.metrics.mcp_endpoint_missing).toBe(true);
    expect(set.metrics.mcp_endpoint_failed).toBe(false);
  },
);

test('an endpoint that is still coming up is waited for, and its tools come first', async () => {
  let refused = 0;
  await using first = await startToolServer({
    tools: () => [tool('a', { description: 'first' })],
    fault: (_request, response) => {
      if (refused >= 4) return false;
      response.writeHead(refused++ % 2 === 0 ? 502 : 503).end('<html>Bad Gateway</html>');
      return true;
    },
  });
  await using second = await startToolServer({ tools: () => [tool('a'), tool('b')] });
  await using set = toolsOf([first, second]);
  const tools = await set.list(soon);
  expect(tools.map(({ function: { name, description } }) => [name, description])).toEqual([
    ['a', 'first'],
    ['b', 'does b'],
  ]);
  expect(refused).toBe(4);
});

test('an endpoint where nobody listens yet is waited for', async () => {
  const port = await freePort();
  await using set = toolsOf([`http://127.0.0.1:${port}/mcp`]);
  const listed = names(set);
  await using _server = await startToolServer({ port, tools: () => [tool('late')] });
  expect(await listed).toEqual(['late']);
});

test('an endpoint that keeps failing is done without when the time is up', async () => {
  await using first = await startToolServer({
    fault: (_request, response) => {
      response.writeHead(502).end();
      return true;
    },
  });
  await using second = await startToolServer({ tools: () => [tool('a')] });
  await using set = toolsOf([first, second], { timings: { straggler_ms: 200 } });
  expect(await names(set)).toEqual(['a']);
  expect(set.metrics.mcp_endpoint_failed).toBe(true);
  await using hasty = toolsOf([first, second]);
  expect(await names(hasty, { ...soon, timeout_ms: 300 })).toEqual(['a']);
});

test('an endpoint that never answers does not hold up the other longer than its time', async () => {
  await using first = await startToolServer({ fault: () => true });
  await using second = await startToolServer({ tools: () => [tool('a')] });
  await using set = toolsOf([first, second], {
    timings: { operation_ms: 100, straggler_ms: 300, close_ms: 100 },
  });
  expect(await names(set)).toEqual(['a']);
});

test('an empty list is waited for', async () => {
  let asked = 0;
  await using server = await startToolServer({ tools: () => (++asked < 3 ? [] : [tool('a')]) });
  await using set = toolsOf([server]);
  expect(await names(set)).toEqual(['a']);
  expect(asked).toBe(3);
  expect(server.sessions.size).toBe(1);
});

test('no tools in time is an infra failure with the last words of each endpoint, and no secret in them', async () => {
  await using first = await startToolServer({
    fault: (request, response) => {
      response.writeHead(502).end(`upstream says no to ${request.headers.authorization}`);
      return true;
    },
  });
  await using second = await startToolServer({ tools: () => [] });
  await using set = toolsOf([first, second]);
  const failure = await failureOf(set.list({ ...soon, timeout_ms: 300 }));
  expect(failure).toMatchObject({ class: 'infra', phase: 'boot', code: 'no_tools', retryable: true });
  expect(failure.message).toContain('HTTP 502: upstream says no to');
  expect(failure.message).toContain('an empty list');
  expect(failure.message).not.toContain('sk_very_secret');
});

test('a refused key ends the wait at once, and trying again is said to be useless', async () => {
  await using server = await startToolServer({
    fault: (_request, response) => {
      response.writeHead(401).end('invalid API key');
      return true;
    },
  });
  await using set = toolsOf([server]);
  const failure = await failureOf(set.list({ ...soon, timeout_ms: 1_000_000 }));
  expect(failure).toMatchObject({ code: 'no_tools', retryable: false });
  expect(failure.message).toContain('HTTP 401: invalid API key');
});

test('an instance that is gone ends the wait at once', async () => {
  await using set = toolsOf([`http://127.0.0.1:${await freePort()}/mcp`], { isGone: async () => true });
  const failure = await failureOf(set.list({ ...soon, timeout_ms: 1_000_000 }));
  expect(failure).toMatchObject({ class: 'infra', phase: 'boot', code: 'environment_gone' });
});

test('tool_use does without the screen, computer_use and browser_use have nothing else', async () => {
  await using server = await startToolServer({ tools: () => [tool('computer'), tool('a')] });
  for (const [modality, expected] of [
    ['tool_use', ['a']],
    ['computer_use', ['computer']],
    ['browser_use', ['computer']],
  ] as const) {
    await using set = toolsOf([server], { modality });
    expect(await names(set)).toEqual(expected);
    const other = await set.call(expected[0] === 'a' ? 'computer' : 'a', {}, soon);
    expect(other).toMatchObject({ is_error: true });
  }
  expect(server.carriedOut).toEqual([]);
});

test('computer_use without a screen says what is missing and what is there', async () => {
  await using server = await startToolServer({ tools: () => [tool('a'), tool('b')] });
  await using set = toolsOf([server], { modality: 'computer_use' });
  const failure = await failureOf(set.list({ ...soon, timeout_ms: 200 }));
  expect(failure.code).toBe('no_tools');
  expect(failure.message).toContain('no tool computer, which computer_use needs');
  expect(failure.message).toContain('a, b');
});

test("computer_use where all servers are up and none has a screen is the task's fault, long before the time is up", async () => {
  await using server = await startToolServer({ tools: () => [tool('a')] });
  await using set = toolsOf([server], { modality: 'computer_use', timings: { unwanted_ms: 50 } });
  const failure = await failureOf(set.list({ timeout_ms: 60_000, signal: new AbortController().signal }));
  expect(failure).toMatchObject({ class: 'task', code: 'no_tools', retryable: false });
  expect(failure.message).toContain('has others');
});

test('a screen that comes after the other tools is waited for', async () => {
  let asked = 0;
  await using server = await startToolServer({
    tools: () => ((asked += 1) < 3 ? [tool('a')] : [tool('a'), tool('computer')]),
  });
  await using set = toolsOf([server], { modality: 'computer_use', timings: { unwanted_ms: 20_000 } });
  expect(await names(set)).toEqual(['computer']);
});

test('an abort while the list is waited for comes out at once, with its reason', async () => {
  await using server = await startToolServer({ fault: () => true });
  await using set = toolsOf([server], { timings: { close_ms: 100 } });
  const controller = new AbortController();
  const listed = set.list({ timeout_ms: 1_000_000, signal: controller.signal });
  controller.abort(new Error('stop it'));
  await expect(listed).rejects.toThrow('stop it');
});

test('names that chat completions refuse are mapped, and mapped back at a call', async () => {
  await using server = await startToolServer({
    tools: () => [tool('flights.search'), tool('flights_search')],
  });
  await using set = toolsOf([server]);
  expect(await names(set)).toEqual(['flights_search_2', 'flights_search']);
  await set.call('flights_search_2', {}, soon);
  expect(server.carriedOut).toEqual(['flights.search']);
});

test('a description is passed on as text that an engine can encode', async () => {
  await using server = await startToolServer({ tools: () => [tool('a', { description: 'half \ud800' })] });
  await using set = toolsOf([server]);
  expect((await set.list(soon)).map(({ function: { description } }) => description)).toEqual(['half \ufffd']);
});

test('a key that a server writes into its list goes no further', async () => {
  const inputSchema = { type: 'object' as const, properties: { id: { default: 'Bearer sk_very_secret' } } };
  await using server = await startToolServer({
    tools: () => [tool('a', { description: 'send sk_very_secret', inputSchema })],
  });
  await using set = toolsOf([server]);
  const listed = JSON.stringify(await set.list(soon));
  expect(listed).toContain('send [redacted]');
  expect(listed).not.toContain('sk_very_secret');
});
