import { appendFile } from 'node:fs/promises';
import { join } from 'node:path';
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { printable, printableJson } from '../../src/cli/printable.ts';
import { resolveLimits, resolveSampling } from '../../src/contracts/index.ts';
import { createFlightRecorder, traceDirectory, type EpisodeTrace } from '../../src/gateway/index.ts';
import { silentLogger } from '../../src/observe/index.ts';
import { FakeVllm, fault, sample } from '../gateway/support/fake-vllm.ts';
import { messages, openGateway } from '../gateway/support/open-gateway.ts';
import { temporaryDirectory } from '../gateway/recorder/temporary.ts';
import { expectOneLine, invoke, type Invoked } from './invoke.ts';

/** Clears the screen, sets the window's title, goes back over the line, in C1 and C0, and turns the reading order. */
const hostile = 'look\x1b[2J\x1b]0;owned\x07 \x9b31m\rgone\u202eesrever\x00';

let state: Awaited<ReturnType<typeof temporaryDirectory>>;

const trace = (...args: string[]): Promise<Invoked> =>
  invoke(['trace', ...args], { ROLLPOOL_STATE_DIR: state.path });

beforeAll(async () => {
  state = await temporaryDirectory();
  await using vllm = await FakeVllm.start(
    fault(500, `oops ${hostile}`),
    sample({ content: `answer ${hostile}`, reasoning: 'hm', tools: [{ name: 'run', arguments: '{"a":1}' }] }),
  );
  await using recorder = createFlightRecorder({
    directory: traceDirectory(state.path),
    worker: 'worker-1',
    log: silentLogger,
  });
  await using opened = await openGateway(vllm.url, { gateway: { recorder } });
  const session = await opened.gateway.open({
    run_id: 'demo',
    episode_id: 'abc1',
    attempt: 2,
    nonce: 'n',
    sampling: resolveSampling(),
    limits: resolveLimits({}),
    unix_socket: false,
  });
  await messages(session, `question ${hostile}`);
  await session.finish();
  const other = (attempt: number): EpisodeTrace =>
    recorder.open({ run_id: 'demo', episode_id: 'abd2', attempt, model: 'm' });
  other(1).begin({ index: 0, agent_id: 'main', role: 'main', tools: ['Bash'] });
  other(2).fate(0, 'delivered');
  await recorder.settled();
  await appendFile(join(traceDirectory(state.path), 'demo', 'abd2-2.jsonl'), '{"type":"call","cal');
});

afterAll(() => state[Symbol.asyncDispose]());

describe('rollpool trace', () => {
  test('prints an episode’s calls for people', async () => {
    const { code, stdout } = await trace('abc1');
    expect(code).toBe(0);
    for (const said of [
      'episode abc1  attempt 2  run demo',
      'worker worker-1',
      'call 0  main  +',
      'delivered',
      'version unknown',
      'prompt 4 tokens',
      'sampled 3 of',
      'tried again at',
      'HTTP 500: oops',
      '  > user',
      '  < assistant calls run',
      '      {"a":1}',
      '1 calls, 3 tokens sampled',
    ]) {
      expect(stdout).toContain(said);
    }
  });

  test.each([['people'], ['--json']])(
    'sends nothing of a stranger’s that a terminal acts on: %s',
    async (how) => {
      const { stdout } = await trace('abc1', ...(how === '--json' ? [how] : []));

      expect(stdout).not.toMatch(/[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e]/);
      if (how === '--json') {
        expect(JSON.parse(stdout)).toMatchObject({
          attempt: 2,
          calls: [{ call: { new_messages: [{ content: `question ${hostile}` }] } }],
        });
      } else {
        expect(stdout).toContain('look\\e[2J\\e]0;owned\\x07 \\x9b31m\\rgone\\u{202e}esrever\\x00');
      }
    },
  );

  test('takes the beginning of an id, and says when it is that of several', async () => {
    expect((await trace('abc')).stdout).toContain('episode abc1');
    expectOneLine(await trace('ab'), 'beginning of 2 episodes', 'abc1', 'abd2');
  });

  test('shows every attempt, or the one that is asked for, what is unfinished and what is damaged', async () => {
    const { stdout } = await trace('abd2');
    expect(stdout).toContain('attempt 1');
    expect(stdout).toContain('in flight: nothing more is known of it');
    expect(stdout).toContain('tools: Bash');
    expect(stdout).toContain('no end: the episode still runs, or its worker was killed');
    expect(stdout).toContain('attempt 2');
    expect(stdout).toContain('lines that cannot be read: 1');
    expect((await trace('abd2', '--attempt', '2')).stdout).not.toContain('attempt 1');
    expectOneLine(await trace('abd2', '--attempt', '3'), 'attempt 3', 'attempt 1, 2');
  });

  test.each([['nope'], ['../demo/abc1'], ['']])(
    'says clearly when there is none of %j on this machine',
    async (id) => {
      expectOneLine(await trace(id), 'no trace of', 'on this machine', traceDirectory(state.path));
    },
  );
});

describe('text for a terminal', () => {
  test('keeps what people write', () => {
    const text = 'Größe — 数 👩‍👩‍👧 नमस्ते\n  "x" \\n';
    expect(printable(text)).toBe(text);
  });

  test('shows tabs, lone surrogates and separators', () => {
    expect(printable('a\tb\ud800c\u2028d\ufeffe')).toBe('a\\tb\\u{d800}c\\u{2028}d\\u{feff}e');
  });

  test('as JSON means the same and has no character that acts', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary' }), (text) => {
        const shown = printableJson({ text });
        expect(JSON.parse(shown)).toEqual({ text });
        expect(printable(shown)).toBe(shown);
      }),
    );
  });
});
