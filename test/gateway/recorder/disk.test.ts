import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { appendFile, mkdir, readdir, readFile, rm, stat, symlink, utimes, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { createInterface } from 'node:readline';
import { pathToFileURL } from 'node:url';
import { pino } from 'pino';
import { describe, expect, test } from 'vitest';
import { createFlightRecorder, findTraces, readTrace } from '../../../src/gateway/index.ts';
import { lineText } from '../../../src/gateway/recorder/line-text.ts';
import { sweepTraces } from '../../../src/gateway/recorder/retention.ts';
import { TraceWriter } from '../../../src/gateway/recorder/trace-writer.ts';
import { silentLogger } from '../../../src/observe/index.ts';
import { FakeVllm, sample } from '../support/fake-vllm.ts';
import { messages, openGateway } from '../support/open-gateway.ts';
import { temporaryDirectory } from './temporary.ts';

const source = (path: string): string => pathToFileURL(join(import.meta.dirname, '../../../src', path)).href;

/** A worker's part with one session: makes calls without end and says each answered one on stdout. */
const caller = `
  import { createFlightRecorder, createGateway } from ${JSON.stringify(source('gateway/index.ts'))};
  import { resolveLimits, resolveSampling } from ${JSON.stringify(source('contracts/index.ts'))};
  import { silentLogger as log } from ${JSON.stringify(source('observe/index.ts'))};
  const [url, directory] = JSON.parse(process.argv[1]);
  const recorder = createFlightRecorder({ directory, log });
  const gateway = await createGateway({
    policy: { urls: [url], model: 'policy' }, runtimeDir: directory + '/run', recorder, log,
  });
  const session = await gateway.open({
    run_id: 'run', episode_id: 'killed', attempt: 1, nonce: 'n', unix_socket: false,
    sampling: resolveSampling(), limits: resolveLimits({ max_turns: 1000000 }),
  });
  const history = [];
  for (let call = 0; ; call++) {
    history.push({ role: 'user', content: 'question ' + call });
    const answer = await session.chat(
      { messages: history }, { agent_id: 'main', role: 'main', signal: new AbortController().signal },
    );
    answer.delivered(true);
    history.push(answer.message);
    process.stdout.write(call + '\\n');
  }
`;

const episode = (episode_id: string, attempt = 1) => ({ run_id: 'run', episode_id, attempt, model: 'm' });

interface Said {
  readonly level: number;
  readonly msg: string;
  readonly lines_lost?: number;
  readonly why?: string;
}

function listeningLog(): { said: Said[]; log: typeof silentLogger } {
  const said: Said[] = [];
  return { said, log: pino({}, { write: (line: string) => void said.push(JSON.parse(line) as Said) }) };
}

async function bytesIn(directory: string): Promise<number> {
  let bytes = 0;
  for (const run of await readdir(directory)) {
    for (const name of await readdir(join(directory, run))) {
      bytes += Math.ceil((await stat(join(directory, run, name))).size / 4096) * 4096;
    }
  }
  return bytes;
}

describe('a worker that is killed', () => {
  test('loses the call in flight, and no earlier one', async () => {
    await using directory = await temporaryDirectory();
    // A policy takes its time: a call lasts longer than the write of the one before.
    await using vllm = await FakeVllm.start(async (request, response, body) => {
      await sleep(50);
      await sample()(request, response, body);
    });
    const child = spawn(
      process.execPath,
      ['--import', 'tsx', '--input-type=module', '-e', caller, JSON.stringify([vllm.url, directory.path])],
      { stdio: ['ignore', 'pipe', 'inherit'] },
    );
    const exited = once(child, 'exit');
    let answered = -1;
    for await (const line of createInterface({ input: child.stdout })) {
      answered = Number(line);
      if (answered === 20) child.kill('SIGKILL');
    }
    await exited;
    const [file] = await findTraces(directory.path, 'killed');
    const trace = await readTrace(file!);
    expect(answered).toBeGreaterThanOrEqual(20);
    expect(trace.end).toBeNull();
    expect(trace.damaged).toBeLessThanOrEqual(1);
    // The last answer may have been said while its line was still on its way.
    for (const index of Array(answered).keys()) {
      expect(trace.calls[index]?.call, `call ${index}`).toMatchObject({
        call: index,
        new_messages: expect.arrayContaining([{ role: 'user', content: `question ${index}` }]),
        answer: { content: 'hello' },
      });
    }
  });
});

describe('a disk that is full', () => {
  test('costs lines and no calls, is said in one line, and so is its end', async () => {
    await using directory = await temporaryDirectory();
    await using vllm = await FakeVllm.start();
    const { said, log } = listeningLog();
    await using recorder = createFlightRecorder({ directory: directory.path, log, restMs: 0 });
    await using opened = await openGateway(vllm.url, { gateway: { recorder } });
    const session = await opened.open();
    // Every write to this device says that there is no space left.
    const trace = recorder.open(episode('full'));
    await mkdir(join(directory.path, 'run'), { recursive: true });
    const file = join(directory.path, 'run', 'full-1.jsonl');
    await symlink('/dev/full', file);
    for (let call = 0; call < 5; call++) {
      trace.fate(call, 'delivered');
      await recorder.settled();
    }
    expect((await messages(session, 'hi')).status).toBe(200);
    expect(said).toMatchObject([{ level: 40, why: 'ENOSPC' }]);
    const lost = recorder.dropped;
    expect(lost).toBeGreaterThanOrEqual(5);
    await rm(file);
    trace.fate(5, 'delivered');
    await recorder.settled();
    expect(said.slice(-1)).toMatchObject([{ level: 30 }]);
    expect(said.filter(({ level }) => level === 40)).toHaveLength(1);
    expect(recorder.dropped).toBe(lost);
  });

  test('leaves half a line at most, after which lines are whole again', async () => {
    await using directory = await temporaryDirectory();
    const file = join(directory.path, 'run', 'torn-1.jsonl');
    await mkdir(dirname(file));
    await using writer = new TraceWriter({ log: silentLogger, written: () => {}, restMs: 0 });
    await symlink('/dev/full', file);
    writer.append(file, '{"type":"cut","at":1}\n');
    await writer.settled();
    await rm(file);
    await writeFile(file, '{"type":"fate","call":0,"fa');
    writer.append(file, '{"type":"begin","call":1}\n');
    await writer.settled();
    const trace = await readTrace({ path: file, run: 'run', episode: 'torn', attempt: 1 });
    expect(trace).toMatchObject({ damaged: 1, calls: [{ begin: { call: 1 } }] });
  });

  test('is not asked again for a while', async () => {
    await using directory = await temporaryDirectory();
    const file = join(directory.path, 'run', 'rest-1.jsonl');
    await mkdir(dirname(file));
    await symlink('/dev/full', file);
    await using writer = new TraceWriter({ log: silentLogger, written: () => {} });
    writer.append(file, 'a\n');
    await writer.settled();
    await rm(file);
    writer.append(file, 'b\n');
    await writer.settled();
    expect(writer.dropped).toBe(2);
    await expect(stat(file)).rejects.toThrow('ENOENT');
  });

  test('or a directory nobody may write to, is the same', async () => {
    await using directory = await temporaryDirectory();
    await writeFile(join(directory.path, 'run'), 'no directory');
    const { said, log } = listeningLog();
    await using recorder = createFlightRecorder({ directory: directory.path, log });
    recorder.open(episode('e')).fate(0, 'delivered');
    await recorder.settled();
    expect(said).toMatchObject([{ level: 40, why: 'ENOTDIR' }]);
    expect(recorder.dropped).toBe(2);
  });
});

test('a disk slower than the calls loses lines and holds no memory', async () => {
  await using directory = await temporaryDirectory();
  const { said, log } = listeningLog();
  await using writer = new TraceWriter({ log, written: () => {}, waitingLimit: 1_000 });
  const file = join(directory.path, 'run', 'slow-1.jsonl');
  for (let line = 0; line < 100; line++) writer.append(file, `${'x'.repeat(99)}\n`);
  await writer.settled();
  expect(writer.dropped).toBeGreaterThan(80);
  expect((await readFile(file, 'utf8')).length).toBe((100 - writer.dropped) * 100);
  expect(said.filter(({ level }) => level === 40)).toHaveLength(1);
});

describe('what traces take together', () => {
  test('stays within the limit over 10,000 episodes, the newest kept', async () => {
    await using directory = await temporaryDirectory();
    const limitBytes = 4 * 2 ** 20;
    await using recorder = createFlightRecorder({ directory: directory.path, limitBytes, log: silentLogger });
    let most = 0;
    for (let at = 0; at < 10_000; at++) {
      const trace = recorder.open({ ...episode(`e${at}`), run_id: `run-${at % 3}` });
      trace.begin({ index: 0, agent_id: 'main', role: 'main', tools: [] });
      trace.fate(0, 'delivered');
      if (at % 500 === 499) {
        await recorder.settled();
        most = Math.max(most, await bytesIn(directory.path));
      }
    }
    await recorder.settled();
    expect(recorder.dropped).toBe(0);
    // A file takes a block, however little is in it: what counts as written until the next look is less than what it takes.
    expect(most).toBeLessThan(limitBytes * 1.7);
    await sweepTraces(directory.path, { limitBytes, maxAgeMs: 3_600_000 });
    expect(await bytesIn(directory.path)).toBeLessThanOrEqual(limitBytes);
    expect(await findTraces(directory.path, 'e9999')).toHaveLength(1);
    expect(await findTraces(directory.path, 'e5-')).toEqual([]);
  });

  test('one episode has a share of, and what does not fit is said to be missing', async () => {
    await using directory = await temporaryDirectory();
    await using recorder = createFlightRecorder({
      directory: directory.path,
      limitBytes: 80_000,
      log: silentLogger,
    });
    const trace = recorder.open(episode('long'));
    for (let call = 0; call < 1_000; call++) trace.fate(call, 'delivered');
    trace.end({
      calls: 1_000,
      main_turns: 0,
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
    await recorder.settled();
    const [file] = await findTraces(directory.path, 'long');
    expect((await stat(file!.path)).size).toBeLessThan(11_000);
    expect(await readTrace(file!)).toMatchObject({ cut: true, end: { stats: { calls: 1_000 } } });
  });

  test('goes by age, and what is no trace stays', async () => {
    await using directory = await temporaryDirectory();
    const run = join(directory.path, 'run');
    await mkdir(run);
    for (const name of ['old-1.jsonl', 'new-1.jsonl', 'notes.txt']) await appendFile(join(run, name), 'x\n');
    const old = new Date(Date.now() - 7_200_000);
    await utimes(join(run, 'old-1.jsonl'), old, old);
    await utimes(join(run, 'notes.txt'), old, old);
    await sweepTraces(directory.path, { limitBytes: 2 ** 30, maxAgeMs: 3_600_000 });
    expect((await readdir(run)).sort()).toEqual(['new-1.jsonl', 'notes.txt']);
    await rm(join(run, 'notes.txt'));
    await sweepTraces(directory.path, { limitBytes: 0, maxAgeMs: 3_600_000 });
    expect(await readdir(directory.path)).toEqual([]);
  });
});

describe('a line', () => {
  const line = (content: unknown): string =>
    lineText({ type: 'begin', call: 0, agent_id: 'main', role: 'main', at: 0, tools: content as string[] }, [
      'secret-text',
    ]);

  test('keeps the beginning and the end of a long text', () => {
    const text = line([`begin${'x'.repeat(100_000)}end`]);
    expect(text.length).toBeLessThan(40_000);
    expect(text).toContain('"begin');
    expect(text).toContain('characters left out');
    expect(text).toContain('end"');
  });

  test('has no part of a secret, also where a text is cut', () => {
    for (let at = 24_560; at < 24_600; at++) {
      expect(line([`${'x'.repeat(at)}secret-text${'y'.repeat(50_000)}`])).not.toMatch(
        /secret-|ecret-t|ret-text/,
      );
    }
  });

  test('is bounded whatever stands in it', () => {
    const long = Array.from({ length: 5_000 }, () => 'x'.repeat(10_000));
    expect(line(long).length).toBeLessThan(300_000);
    expect(line(Array.from({ length: 100_000 }, () => ({ a: 1 }))).length).toBeLessThan(20_000);
    expect(JSON.parse(line(long))).toMatchObject({ type: 'begin' });
    expect(line([`data:image/png;base64,${'A'.repeat(9_000)}`]).length).toBeLessThan(300);
  });
});
