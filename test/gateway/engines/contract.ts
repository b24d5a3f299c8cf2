import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { resolveLimits, resolveSampling, type CallRecord } from '../../../src/contracts/index.ts';
import { EngineError } from '../../../src/gateway/engines/engine-error.ts';
import type { Engine, EngineAnswer, EngineRequest } from '../../../src/gateway/engines/engine.ts';
import { Replica } from '../../../src/gateway/policy/replica.ts';
import { callReasons } from '../../../src/trajectory/call-checks.ts';
import { until } from '../../support/wait.ts';
import { FakeVllm, fault, hang, json, type Play } from '../support/fake-vllm.ts';
import { messages, openGateway } from '../support/open-gateway.ts';
import { said, speak, type Mouth, type Said } from './support/mouths.ts';

/** One engine, and how its server speaks. */
export interface EngineUnderTest {
  readonly name: string;
  readonly mouth: Mouth;
  readonly engine: () => Engine;
  /** It streams: what came before a cut is known. */
  readonly streams?: true;
  /** The prompt's ids are ours, not the server's word. */
  readonly givesIds?: true;
  /** Ids stand beside their logprobs: a list of either alone cannot be short. */
  readonly pairs?: true;
  /** A call that is cut is aborted by its id. */
  readonly abortsById?: true;
}

const tool = {
  type: 'function' as const,
  function: { name: 'Bash', description: 'Runs.', parameters: { type: 'object', properties: {} } },
};

const request: EngineRequest = {
  messages: [{ role: 'user', content: 'hi' }],
  tools: [tool],
  sampling: resolveSampling({}),
  seed: 7,
  max_tokens: 50,
  upstreamId: (id) => id,
};

/** What the engines of one contract share: an answer read is the same whichever of them gave it. */
export function engineContract(under: EngineUnderTest): void {
  describe(`the engine contract: ${under.name}`, () => {
    let server: FakeVllm;
    let replica: Replica;
    const partials: EngineAnswer[] = [];

    beforeAll(async () => {
      server = await FakeVllm.start();
      replica = new Replica(server.url, undefined);
    });
    afterAll(async () => {
      await replica.close();
      await server[Symbol.asyncDispose]();
    });

    const says =
      (answer: Said): Play =>
      (_request, response) =>
        speak(response, under.mouth, answer);

    const ask = (play: Play, signal = new AbortController().signal): Promise<EngineAnswer> => {
      server.plays = [play];
      partials.length = 0;
      const onPartial = (partial: EngineAnswer): void => void partials.push(partial);
      return under.engine().complete(replica, { ...request, onPartial }, signal);
    };

    test('text, its ids, logprobs and counts are the engine’s own', async () => {
      const { versions = [], ...answer } = await ask(says(said({ content: 'héllo 😀\n' })));
      expect(versions).toEqual([]);
      expect(answer).toEqual({
        content: 'héllo 😀\n',
        reasoning: null,
        tool_calls: [],
        finish_reason: 'stop',
        stop_sequence: null,
        refusal: false,
        prompt_token_ids: Int32Array.of(1, 2, 3, 4, 5),
        token_ids: Int32Array.of(11, 12, 13, 14),
        logprobs: Float32Array.of(-0.11, -0.12, -0.13, -0.14),
        usage: { prompt_tokens: 5, completion_tokens: 4, cached_tokens: 0 },
        reasons: [],
      });
      expect(partials).toEqual([]);
    });

    test('several tool calls keep their order and the argument strings that were sampled', async () => {
      const tools = [
        { name: 'Bash', arguments: '{ "command":"ls \\u00e9",  "n": 1.0 }' },
        { name: 'Read', arguments: '{}' },
        { name: 'Bash', arguments: '{"b":{"}":"{"},"a":[1,{"x":null}]}' },
      ];
      const answer = await ask(says(said({ tools, ids: [1, 2, 3, 4, 5, 6, 7, 8, 9] })));
      expect(answer).toMatchObject({ content: null, finish_reason: 'tool_calls' });
      expect(answer.tool_calls.map(({ name, arguments: given }) => ({ name, arguments: given }))).toEqual(
        tools,
      );
    });

    test('thinking and text before a call are kept apart', async () => {
      const tools = [{ name: 'Bash', arguments: '{"command":"ls"}' }];
      expect(await ask(says(said({ reasoning: 'Hm, so.', content: 'I look.\n', tools })))).toMatchObject({
        reasoning: 'Hm, so.',
        content: 'I look.\n',
        tool_calls: [tools[0]],
      });
    });

    test.each(['stop', 'length', 'abort'])('finish reason %s', async (finish) => {
      expect((await ask(says(said({ finish })))).finish_reason).toBe(finish);
    });

    test('a stop string that was met is named, an end token is not', async () => {
      expect((await ask(says(said({ stop: 'END' })))).stop_sequence).toBe('END');
      expect((await ask(says(said()))).stop_sequence).toBeNull();
    });

    test.each([
      [429, 'x', 'busy'],
      [503, 'x', 'busy'],
      [500, 'x', 'busy'],
      [400, 'x', 'rejected'],
      [422, 'x', 'rejected'],
      [401, 'x', 'misconfigured'],
      [404, 'x', 'misconfigured'],
      [
        400,
        "This model's maximum context length is 800 tokens. However, your request has 900 input tokens.",
        'overflow',
      ],
      [400, "The input (900 tokens) is longer than the model's context length (800 tokens).", 'overflow'],
    ] as const)('status %i "%s" is %s', async (status, message, kind) => {
      const error = await ask(fault(status, message, { 'retry-after': '2' })).catch((each: unknown) => each);
      expect(error).toBeInstanceOf(EngineError);
      expect(error).toMatchObject({ fault: kind, status });
      if (status === 429) expect(error).toMatchObject({ retryAfterMs: 2_000 });
      if (kind === 'overflow') expect(error).toMatchObject({ tokens: { prompt: 900, limit: 800 } });
    });

    const half = Math.floor(Buffer.byteLength(under.mouth.write(said())) * 0.7);
    test.each<[string, Play]>([
      ['that dies before the first byte', (_request, response) => void response.destroy()],
      [
        'that dies in mid-body',
        (_request, response) => {
          response.writeHead(200, { 'content-type': under.mouth.type });
          response.write(under.mouth.write(said()).slice(0, half), () => response.destroy());
        },
      ],
      [
        'that truncates',
        (_request, response) => {
          response.writeHead(200, { 'content-type': under.mouth.type });
          response.end(under.mouth.write(said()).slice(0, half));
        },
      ],
      ['that answers garbage', (_request, response) => json(response, 200, '<html>')],
      ['that answers nothing', (_request, response) => json(response, 200, '')],
      [
        'that answers something else',
        (_request, response) => json(response, 200, { object: 'list', data: [] }),
      ],
    ])('a server %s is busy', async (_name, play) => {
      await expect(ask(play)).rejects.toMatchObject({ name: 'EngineError', fault: 'busy' });
    });

    test('what came before a cut is told where the engine streams, and only there', async () => {
      await ask((_request, response) => {
        response.writeHead(200, { 'content-type': under.mouth.type });
        response.write(under.mouth.write(said()).slice(0, half), () => response.destroy());
      }).catch(() => undefined);
      if (under.streams !== true) {
        expect(partials).toEqual([]);
        return;
      }
      const [partial] = partials;
      expect(partial).toMatchObject({ reasons: ['aborted'], finish_reason: null });
      expect(partial!.token_ids!.length).toBeGreaterThan(0);
      expect(partial!.token_ids!.length).toBeLessThan(4);
      expect(partial!.logprobs).toHaveLength(partial!.token_ids!.length);
    });

    test('an aborted call ends with the signal’s reason, and the server stops', async () => {
      const abort = new AbortController();
      const asked = server.bodies.length + 1;
      const dropped = server.aborted;
      const answer = ask(hang, abort.signal);
      const { rid } = (await server.asked(asked)) as { rid: string };
      abort.abort(new Error('the client left'));
      await expect(answer).rejects.toThrow('the client left');
      await until(() => server.aborted > dropped, 'the connection is closed');
      if (under.abortsById === true) expect(server.abortRequests.at(-1)).toBe(rid);
      else expect(server.abortRequests).toEqual([]);
    });

    const reasonsOf = async (answer: Said): Promise<readonly string[]> => {
      server.plays = [says(answer)];
      await using opened = await openGateway(server.url, { gateway: { engine: under.engine() } });
      const response = await messages(opened.session, 'hi', { max_tokens: 1_000 });
      expect(response.status).toBe(200);
      await response.text();
      const records: readonly CallRecord[] = await opened.session.finish();
      expect(records).toHaveLength(1);
      return callReasons(records[0]!);
    };

    const ids = [11, 12, 13, 14];
    test.each<[string, Partial<Said>, readonly string[]]>([
      ['nothing', {}, []],
      ['no ids', { ids: null, named: false, logprobs: null }, ['ids_missing', 'bad_logprob']],
      ['no prompt ids', { prompt: null }, under.givesIds === true ? [] : ['prompt_ids_missing']],
      [
        'one id short',
        { ids: ids.slice(1), logprobs: ids.map(() => -0.5) },
        [under.pairs === true ? 'ids_missing' : 'length_mismatch'],
      ],
      ['no logprobs', { logprobs: null }, ['bad_logprob']],
      ['a NaN logprob', { logprobs: [-0.1, NaN, -0.1, -0.1] }, ['bad_logprob']],
      ['a null logprob', { logprobs: [-0.1, null, -0.1, -0.1] }, ['bad_logprob']],
      ['a positive logprob', { logprobs: [0.25, -0.1, -0.1, -0.1] }, ['bad_logprob']],
      ['a logprob of -9999', { logprobs: [-0.1, -0.1, -9999, -0.1] }, ['bad_logprob']],
      [
        'one logprob short',
        { logprobs: [-0.1, -0.1, -0.1] },
        [under.pairs === true ? 'usage_mismatch' : 'length_mismatch'],
      ],
      ['one completion token too many', { usage: { prompt: 5, completion: 5 } }, ['usage_mismatch']],
      ['one prompt token too few', { usage: { prompt: 4, completion: 4 } }, ['usage_mismatch']],
      ['no counts', { usage: null }, ['usage_mismatch']],
      ['no finish reason', { finish: null }, ['aborted']],
    ])('an answer with %s wrong is trainable only when nothing is', async (_name, change, reasons) => {
      const found = await reasonsOf(said(change));
      if (reasons.length === 0) expect(found).toEqual([]);
      else expect(found).toEqual(expect.arrayContaining([...reasons]));
    });

    test('an answer that the engine aborted is set aside, and another one is given', async () => {
      server.plays = [says(said({ finish: 'abort' })), says(said({ content: 'whole' }))];
      await using opened = await openGateway(server.url, {
        gateway: { engine: under.engine() },
        limits: resolveLimits({}),
      });
      const response = await messages(opened.session, 'hi');
      expect(await response.json()).toMatchObject({ content: [{ text: 'whole' }] });
      const records = await opened.session.finish();
      expect(records.map(({ fate }) => fate)).toEqual(['aborted', 'delivered']);
      expect(callReasons(records[0]!)).toContain('aborted');
      expect(callReasons(records[1]!)).toEqual([]);
    });
  });
}
