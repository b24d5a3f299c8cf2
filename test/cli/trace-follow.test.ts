import { spawnSync } from 'node:child_process';
import { appendFile, mkdir, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { followEpisode } from '../../src/cli/trace-follow.ts';
import {
  createFlightRecorder,
  findTraces,
  traceDirectory,
  type FlightRecorder,
} from '../../src/gateway/index.ts';
import { silentLogger } from '../../src/observe/index.ts';
import { temporaryDirectory } from '../gateway/recorder/temporary.ts';
import { FakeVllm, gate, sample } from '../gateway/support/fake-vllm.ts';
import { messages, openGateway } from '../gateway/support/open-gateway.ts';
import { until } from '../support/wait.ts';
import { expectOneLine, invoke } from './invoke.ts';

interface Following {
  readonly text: () => string;
  readonly ended: Promise<boolean>;
  readonly leave: AbortController;
}

/** Follows what the recorder writes of episodes whose ids begin so. */
function follow(directory: string, episode: string, json = false): Following {
  let text = '';
  const leave = new AbortController();
  const ended = followEpisode({
    find: async () => (await findTraces(directory, episode)).at(-1) ?? null,
    json,
    signal: leave.signal,
    write: (more) => (text += more),
    pollMs: 10,
  });
  return { text: () => text, ended, leave };
}

const recorderIn = (directory: string): FlightRecorder =>
  createFlightRecorder({ directory, log: silentLogger });

describe('a trace that is followed', () => {
  test('waits for the episode, shows each call as it begins and as it ends, and ends with the episode', async () => {
    await using place = await temporaryDirectory();
    const following = follow(place.path, 'episode-');
    const { play, open } = gate({ content: 'the second \x1b[2Janswer' });
    await using vllm = await FakeVllm.start(sample({ content: 'the first answer' }), play);
    await using recorder = recorderIn(place.path);
    await using opened = await openGateway(vllm.url, { gateway: { recorder } });
    const first = await messages(opened.session, 'one');
    await until(() => following.text().includes('the first answer'), 'the first call is shown');
    const second = messages(opened.session, 'two');
    await until(() => following.text().includes('begins'), 'the second call is shown to begin');
    expect(following.text()).toMatch(/call 1 {2}main {2}\+\d+\.\d\d s {2}begins\n$/);
    expect(following.text()).not.toContain('no end');
    open();
    await (await second).text();
    await until(() => following.text().includes('the second \\e[2Janswer'), 'the second call is shown');
    await opened.session.finish();
    expect(await following.ended).toBe(true);
    const text = following.text();
    expect(text).toMatch(/^episode episode-\d+ {2}attempt 1 {2}run/);
    expect(text).toContain(`request ${first.headers.get('request-id')}`);
    expect(text).toContain('end at +');
    expect(text.match(/the first answer/g)).toHaveLength(1);
    expect(text).not.toMatch(/[\x00-\x09\x0b-\x1f\x7f-\x9f]/);
  });

  test('shows what became of an answer that was on its way', async () => {
    await using place = await temporaryDirectory();
    await using recorder = recorderIn(place.path);
    await using vllm = await FakeVllm.start();
    await using opened = await openGateway(vllm.url, { gateway: { recorder } });
    const answer = await opened.session.chat(
      { messages: [{ role: 'user', content: 'hi' }] },
      { agent_id: 'main', role: 'main', signal: new AbortController().signal },
    );
    const following = follow(place.path, 'episode-');
    await until(() => following.text().includes('undelivered'), 'it is shown');
    answer.delivered(true);
    await until(() => following.text().includes('call 0  delivered\n'), 'its fate is shown');
    await opened.session.finish();
    expect(await following.ended).toBe(true);
  });

  test('as JSON is the lines of the file, each once, wherever a write ended', async () => {
    await using place = await temporaryDirectory();
    const path = join(place.path, 'run', 'e-1.jsonl');
    await mkdir(join(place.path, 'run'));
    const lines = [
      { type: 'begin', call: 0, agent_id: 'main', role: 'main', at: 1, tools: ['Größe 😀\u009b'] },
      { type: 'refused', request_id: 'req_1', message: 'no', at: 2 },
      { type: 'what else there may be', at: 3 },
      { type: 'end', at: 4, stats: {}, failure: null },
    ].map((line) => JSON.stringify(line));
    const bytes = Buffer.from(`${lines.slice(0, 2).join('\n')}\n{"dam\n${lines.slice(2).join('\n')}\n`);
    await writeFile(path, '');
    const following = follow(place.path, 'e', true);
    for (let at = 0; at < bytes.length; at += 7) await appendFile(path, bytes.subarray(at, at + 7));
    expect(await following.ended).toBe(true);
    const said = following.text().trimEnd().split('\n');
    expect(said.map((line) => JSON.parse(line) as unknown)).toEqual(
      lines.map((line) => JSON.parse(line) as unknown),
    );
    expect(following.text()).not.toContain('\u009b');
  });

  test('says that a worker is gone, and goes over to the next attempt', async () => {
    await using place = await temporaryDirectory();
    await mkdir(join(place.path, 'run'));
    const { pid } = spawnSync(process.execPath, ['-e', '']);
    const began = { type: 'episode', episode_id: 'e', run_id: 'run', attempt: 1, pid, at: 1 };
    await writeFile(
      join(place.path, 'run', 'e-1.jsonl'),
      `${JSON.stringify(began)}\n{"type":"begin","call":0`,
    );
    const following = follow(place.path, 'e');
    await until(() => following.text().includes('waiting for another attempt'), 'the worker is missed');
    expect(following.text()).toContain(`no end: its worker (pid ${pid}) is not there any more`);
    await using recorder = recorderIn(place.path);
    const trace = recorder.open({ run_id: 'run', episode_id: 'e', attempt: 2, model: 'm' });
    trace.refused({ request_id: 'req_2', message: 'not yet' });
    await until(() => following.text().includes('request req_2 refused'), 'the next attempt is shown');
    expect(following.text().match(/any more/g)).toHaveLength(1);
    expect(following.text()).toContain('attempt 2');
    following.leave.abort();
    expect(await following.ended).toBe(false);
  });

  test('that is removed meanwhile ends it', async () => {
    await using place = await temporaryDirectory();
    await using recorder = recorderIn(place.path);
    const trace = recorder.open({ run_id: 'run', episode_id: 'e', attempt: 1, model: 'm' });
    trace.fate(0, 'delivered');
    await recorder.settled();
    const following = follow(place.path, 'e');
    const ended = expect(following.ended).rejects.toMatchObject({ code: 'ENOENT' });
    await until(() => following.text() !== '', 'it is followed');
    await rm(place.path, { recursive: true });
    await ended;
  });
});

describe('rollpool trace --follow', () => {
  test('shows an episode that has ended, and ends', async () => {
    await using state = await temporaryDirectory();
    await using recorder = recorderIn(traceDirectory(state.path));
    for (const attempt of [1, 2]) {
      const trace = recorder.open({ run_id: 'run', episode_id: 'e%:x', attempt, model: `model-${attempt}` });
      trace.begin({ index: 0, agent_id: 'main', role: 'main', tools: [] });
      trace.end({
        calls: 1,
        main_turns: 1,
        prompt_tokens: 0,
        completion_tokens: 0,
        discarded_tokens: 0,
        model_ms: 0,
        hold_ms: 0,
        longest_call_ms: 0,
        self_calls: 0,
        budget: null,
        failure: null,
      });
    }
    await recorder.settled();
    const env = { ROLLPOOL_STATE_DIR: state.path };
    const newest = await invoke(['trace', 'e%', '--follow'], env);
    expect(newest).toMatchObject({ code: 0, stderr: '' });
    expect(newest.stdout).toContain('model-2');
    expect(newest.stdout).toContain('call 0  main');
    expect(newest.stdout).not.toContain('model-1');
    expect((await invoke(['trace', 'e%', '--follow', '--attempt', '1'], env)).stdout).toContain('model-1');
  });

  test('gives up after --timeout with exit code 1, and says where it waited', async () => {
    await using state = await temporaryDirectory();
    const env = { ROLLPOOL_STATE_DIR: state.path };
    const { code, stdout, stderr } = await invoke(['trace', 'none', '--follow', '--timeout', '1'], env);
    expect([code, stdout]).toEqual([1, '']);
    expect(stderr).toContain('there is no trace of "none" on this machine');
    expect(stderr).toContain('had not ended after 1 s');
    expectOneLine(await invoke(['trace', 'none', '--timeout', '1'], env), '--timeout goes with --follow');
    expectOneLine(await invoke(['trace', '', '--follow'], env), 'has to be named');
  });
});
