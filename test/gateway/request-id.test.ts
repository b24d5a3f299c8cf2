import { connect } from 'node:net';
import { pino } from 'pino';
import { describe, expect, test } from 'vitest';
import { createFlightRecorder, findTraces, readTrace, type Trace } from '../../src/gateway/index.ts';
import { silentLogger } from '../../src/observe/index.ts';
import { until } from '../support/wait.ts';
import { temporaryDirectory } from './recorder/temporary.ts';
import { FakeVllm, fault, gate, sample } from './support/fake-vllm.ts';
import { messages, openGateway, post } from './support/open-gateway.ts';

const ours = /^req_[0-9a-f]{24}$/;

/** Both names that clients read. */
function idsOf(response: Response): [string | null, string | null] {
  return [response.headers.get('request-id'), response.headers.get('x-request-id')];
}

describe('the name of a request', () => {
  test('47: stands in the headers of every answer, good or bad, in both dialects, streamed or not, and is new each time', async () => {
    await using vllm = await FakeVllm.start();
    await using opened = await openGateway(vllm.url, { limits: { max_turns: 3 } });
    const { session } = opened;
    const chat = { model: 'm', messages: [{ role: 'user', content: 'hi' }] };
    const answers = [
      await messages(session, 'one'),
      await messages(session, 'two', { stream: true }),
      await post(session, '/v1/chat/completions', { ...chat, stream: true }),
      await messages(session, 'four'),
      await messages(session, 'no more turns'),
      await post(session, '/v1/messages/count_tokens', chat),
      await post(session, '/v1/chat/completions', { ...chat, n: 2 }),
      await messages(session, []),
      await post(session, '/v1/nothing', {}),
      await post(session, '/v1/messages', {}, { headers: { authorization: 'Bearer nobody' } }),
      await fetch(`${session.url}/v1/models`, { headers: { 'x-api-key': session.bearer } }),
      await fetch(session.url, { method: 'HEAD' }),
    ];
    await Promise.all(answers.map((answer) => answer.text()));
    expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([200, 400, 401, 402, 404]));
    const ids = answers.map((answer) => {
      const [id, again] = idsOf(answer);
      expect(id).toMatch(ours);
      expect(again).toBe(id);
      return id;
    });
    expect(new Set(ids).size).toBe(ids.length);
  });

  test('is never the one that a client chose', async () => {
    await using vllm = await FakeVllm.start();
    await using opened = await openGateway(vllm.url);
    const headers = { 'x-request-id': 'mine', 'request-id': 'mine' };
    expect(idsOf(await messages(opened.session, 'hi', {}, { headers }))[0]).toMatch(ours);
  });

  test('leads to the call, to the retry that joined it and to the refusal in the flight recorder', async () => {
    await using directory = await temporaryDirectory();
    const { play, open } = gate();
    await using vllm = await FakeVllm.start(play, fault(400, 'no such thing'));
    await using recorder = createFlightRecorder({ directory: directory.path, log: silentLogger });
    await using opened = await openGateway(vllm.url, { gateway: { recorder, graceSeconds: 60 } });
    const { session } = opened;

    const leaving = new AbortController();
    const left = messages(session, 'one', {}, { signal: leaving.signal }).catch(() => 'left');
    await vllm.asked(1);
    leaving.abort();
    expect(await left).toBe('left');
    const { shared } = session as unknown as { shared: { idle(): boolean } };
    await until(() => shared.idle(), 'the client is seen to be gone');
    const retried = messages(session, 'one');
    await until(() => !shared.idle(), 'the retry is there');
    open();
    const [joined] = idsOf(await retried);
    const [failed] = idsOf(await messages(session, 'two'));
    const [refused] = idsOf(await messages(session, 'three', { max_tokens: 'many' }));
    await session.finish();
    const [late] = idsOf(await messages(session, 'four'));
    await recorder.settled();

    const trace: Trace = await readTrace((await findTraces(directory.path, 'episode-'))[0]!);
    expect(trace.calls).toMatchObject([
      { begin: { request_id: expect.stringMatching(ours) as string }, joined: [joined] },
      { begin: { request_id: failed }, call: { error: expect.stringContaining('no such') as string } },
    ]);
    expect(trace.refused).toMatchObject([
      { request_id: refused, message: expect.stringContaining('max_tokens') as string },
    ]);
    // A finished session's bearer is nobody's.
    expect(late).toMatch(ours);
  });

  test('stands in the log lines of its call', async () => {
    const lines: string[] = [];
    const log = pino({ level: 'debug' }, { write: (line: string) => void lines.push(line) });
    await using vllm = await FakeVllm.start(fault(500, 'oops'), sample());
    await using opened = await openGateway(vllm.url, { gateway: { log } });
    const [retried] = idsOf(await messages(opened.session, 'hi'));
    const [refused] = idsOf(await messages(opened.session, []));
    const said = (id: string | null): string[] =>
      lines.filter((line) => line.includes(`"request_id":"${id}"`));
    expect(said(retried).join()).toContain('a model call is tried again');
    expect(said(refused).join()).toContain('a request was refused');
  });

  test('of refused requests fills no disk: an agent that asks for ever is noted two hundred times', async () => {
    await using directory = await temporaryDirectory();
    await using recorder = createFlightRecorder({ directory: directory.path, log: silentLogger });
    const trace = recorder.open({ run_id: null, episode_id: 'e', attempt: 1, model: 'm' });
    for (let at = 0; at < 500; at++) trace.refused({ request_id: `req_${at}`, message: 'no' });
    await recorder.settled();
    const read = await readTrace((await findTraces(directory.path, 'e'))[0]!);
    expect(read.refused).toHaveLength(200);
    expect(read.cut).toBe(false);
  });

  test('is not missed by a client whose socket ends before the answer', async () => {
    await using vllm = await FakeVllm.start();
    await using opened = await openGateway(vllm.url);
    const { hostname, port } = new URL(opened.session.url);
    const socket = connect(Number(port), hostname);
    let text = '';
    socket.on('data', (chunk: Buffer) => (text += chunk.toString()));
    socket.end('GET /v1/models HTTP/1.1\r\nhost: x\r\n\r\n');
    await until(() => text.includes('\r\n\r\n'), 'it is answered');
    expect(text).toMatch(/^request-id: req_/im);
    socket.destroy();
  });
});
