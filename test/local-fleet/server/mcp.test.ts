import { describe, expect, it } from 'vitest';
import { until } from '../../support/wait.ts';
import { ask, connect, create, key, startNotesFleet } from './fleet-client.ts';

const text = (result: unknown): string => (result as { content: { text: string }[] }).content[0]?.text ?? '';

describe('MCP', () => {
  it('offers the tools at both endpoints, the screen only at the aggregator', async () => {
    await using fleet = await startNotesFleet();
    const { root } = (await create(fleet)).json.urls as { root: string };
    await using own = await connect(`${root}mcp`);
    await using aggregator = await connect(`${root}api/v1/mcp`);
    const names = async ({ client }: typeof own): Promise<string[]> =>
      (await client.listTools()).tools.map(({ name }) => name);
    expect(await names(own)).toEqual(['add_note', 'list_notes']);
    expect(await names(aggregator)).toEqual(['add_note', 'list_notes', 'computer']);
    expect(fleet.sessions()).toBe(2);
  });

  it('calls a tool, whose answer is one text; what fails is a result too', async () => {
    await using fleet = await startNotesFleet();
    const { root } = (await create(fleet)).json.urls as { root: string };
    await using session = await connect(`${root}mcp`);
    const call = (name: string, args = {}): ReturnType<typeof session.client.callTool> =>
      session.client.callTool({ name, arguments: args });
    expect(JSON.parse(text(await call('add_note', { text: 'tea' })))).toEqual({ added: 'tea' });
    expect(JSON.parse(text(await call('list_notes')))).toHaveLength(2);
    expect(await call('add_note')).toMatchObject({ isError: true, content: [{ text: 'text is required' }] });
    expect(await call('fly')).toMatchObject({ isError: true, content: [{ text: 'Unknown tool: fly' }] });
    expect(await call('computer')).toMatchObject({ isError: true });
    expect(fleet.instances()).toMatchObject([{ calls: 5 }]);
  });

  it('asks for the key and for a session it knows', async () => {
    await using fleet = await startNotesFleet();
    const { root } = (await create(fleet)).json.urls as { root: string };
    const other = (await create(fleet)).json.urls.root as string;
    await using session = await connect(`${root}mcp`);
    const list = { jsonrpc: '2.0', id: 1, method: 'tools/list' };
    const headers = { authorization: `Bearer ${key}`, accept: 'application/json, text/event-stream' };
    const own = { ...headers, 'mcp-session-id': session.sessionId ?? '' };
    await expect(connect(`${root}mcp`, 'sk_wrong')).rejects.toThrow(/Invalid API key/);
    expect((await ask(`${root}mcp`, 'POST', list, headers)).status).toBe(400);
    expect((await ask(`${root}mcp`, 'POST', list, own)).status).toBe(200);
    expect((await ask(`${other}mcp`, 'POST', list, own)).status).toBe(404);
    expect((await ask(`${root}api/v1/mcp`, 'POST', list, own)).status).toBe(404);
    expect(await ask(`${root}mcp`, 'POST', list, { ...own, 'mcp-session-id': 'x' })).toMatchObject({
      status: 404,
      json: { error: { code: -32_001, message: 'Session not found' } },
    });
    expect((await ask(`${root}mcp`, 'GET', undefined, own)).status).toBe(405);
  });

  it('closes a session when its client says so, when it is idle, and with its instance', async () => {
    await using fleet = await startNotesFleet({ sessionIdleSeconds: 0.2 });
    const { instance_id, urls } = (await create(fleet)).json;
    const polite = await connect(`${urls.root}mcp`);
    await polite[Symbol.asyncDispose]();
    expect(fleet.sessions()).toBe(0);
    await using forgotten = await connect(`${urls.root}mcp`);
    await until(() => fleet.sessions() === 0, 'the idle session is closed');
    await expect(forgotten.client.listTools()).rejects.toThrow(/Session not found/);
    await using late = await connect(`${urls.root}mcp`);
    expect(fleet.sessions()).toBe(1);
    await ask(`${fleet.url}/v1/env/instances/${instance_id}`, 'DELETE');
    expect(fleet.sessions()).toBe(0);
    await expect(late.client.listTools()).rejects.toThrow(/502/);
  });

  it('keeps a bounded number of sessions for one instance', async () => {
    await using fleet = await startNotesFleet();
    const { root } = (await create(fleet)).json.urls as { root: string };
    const initialize = {
      jsonrpc: '2.0',
      id: 1,
      method: 'initialize',
      params: { protocolVersion: '2025-06-18', capabilities: {}, clientInfo: { name: 't', version: '1' } },
    };
    const headers = { authorization: `Bearer ${key}`, accept: 'application/json, text/event-stream' };
    for (let made = 0; made < 70; made += 1) {
      expect((await ask(`${root}mcp`, 'POST', initialize, headers)).status).toBe(200);
    }
    expect(fleet.sessions()).toBe(64);
  });
});
