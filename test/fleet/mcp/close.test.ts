import { expect, test } from 'vitest';
import { createMcpAgent } from '../../../src/fleet/mcp/http-exchange.ts';
import { until } from '../../support/wait.ts';
import { startToolServer, tool } from './tool-server.ts';
import { connectionsClosed, soon, toolsOf } from './tool-sets.ts';

test('closing ends the session of each endpoint and leaves no socket', async () => {
  await using first = await startToolServer();
  await using second = await startToolServer({ tools: () => [tool('other')] });
  const set = toolsOf([first, second]);
  await set.list(soon);
  await set.call('echo', {}, soon);
  await set.call('other', {}, soon);
  expect([first.sessions.size, second.sessions.size]).toEqual([1, 1]);
  await set[Symbol.asyncDispose]();
  expect([first.sessions.size, second.sessions.size]).toEqual([0, 0]);
  await connectionsClosed();
  await set[Symbol.asyncDispose]();
  await expect(set.call('echo', {}, soon)).rejects.toThrow('closed');
  await expect(set.list(soon)).rejects.toThrow('closed');
});

test('a server that never answers the end of a session does not hold it up', async () => {
  await using server = await startToolServer({ fault: (request) => request.method === 'DELETE' });
  const set = toolsOf([server], { timings: { close_ms: 200 } });
  await set.list(soon);
  const begun = performance.now();
  await set[Symbol.asyncDispose]();
  expect(performance.now() - begun).toBeLessThan(5_000);
  expect(server.seen).toContain('DELETE');
  await connectionsClosed();
});

test('closing in the middle of a call and of a list ends both at once, and their sockets', async () => {
  await using server = await startToolServer({ call: () => new Promise(() => undefined) });
  await using hanging = await startToolServer({ fault: () => true });
  const set = toolsOf([server], { timings: { close_ms: 200 } });
  await set.list(soon);
  const call = set.call('echo', {}, soon);
  const other = toolsOf([hanging], { timings: { close_ms: 200 } });
  const list = other.list(soon);
  await until(() => server.carriedOut.length > 0 && hanging.seen.length > 0, 'both are on their way');
  const ended = Promise.allSettled([call, list]);
  await Promise.all([set[Symbol.asyncDispose](), other[Symbol.asyncDispose]()]);
  for (const outcome of await ended) expect(outcome.status).toBe('rejected');
  expect(server.sessions.size).toBe(0);
  await connectionsClosed();
});

test('a session that is just being opened is ended on the server too', async () => {
  let release = (): void => undefined;
  const held = new Promise<void>((resolve) => (release = resolve));
  await using server = await startToolServer({
    hold: ({ method }) => (method === 'initialize' ? held : undefined),
  });
  const set = toolsOf([server]);
  const list = set.list(soon).catch((error: unknown) => error);
  await until(() => server.seen.length > 0, 'the session is being opened');
  const closing = set[Symbol.asyncDispose]();
  expect(await list).toBeInstanceOf(Error);
  release();
  await closing;
  expect(server.seen).toContain('DELETE');
  expect(server.sessions.size).toBe(0);
});

test('one that opened half-way is ended, and another one opened', async () => {
  let refused = false;
  await using server = await startToolServer({
    fault: (_request, response, { method }) => {
      if (refused || method !== 'notifications/initialized') return false;
      refused = true;
      response.writeHead(503).end();
      return true;
    },
  });
  {
    await using set = toolsOf([server]);
    expect(await set.list(soon)).toHaveLength(1);
    expect(server.sessions.size).toBe(1);
  }
  expect(server.sessions.size).toBe(0);
});

test('one agent serves many sets, and holds no socket once they are closed', async () => {
  await using server = await startToolServer({ json: true });
  const agent = createMcpAgent();
  const sets = Array.from({ length: 20 }, () => toolsOf([server], { dispatcher: agent }));
  await Promise.all(
    sets.map(async (set, index) => {
      const own = { ...soon, signal: new AbortController().signal };
      await set.list(own);
      expect(await set.call('echo', { index }, own)).toMatchObject({ text: `{"index":${index}}` });
    }),
  );
  expect(server.sessions.size).toBe(20);
  await Promise.all(sets.map((set) => set[Symbol.asyncDispose]()));
  expect(server.sessions.size).toBe(0);
  await connectionsClosed();
  await agent.destroy();
});
