import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { startScriptedPolicy, type ScriptedPolicy } from '../../src/policy/index.ts';
import { openE2bDouble, type E2bDouble } from '../e2b-double/open-e2b-double.ts';
import { haveDocker } from '../sandbox/docker-daemon.ts';
import { openPolicyGate, type PolicyGate } from './policy-gate.ts';
import { everythingInRedis, payloadsOf } from './redis-content.ts';
import { bash, smallScripts, smallTask } from './small-tasks.ts';
import { openStage, readResults, type Stage } from './stage.ts';

/** What an agent of E2B's looks for: the service's key, wherever it could stand, and ways to more than it has. */
const looks = (pattern: string): unknown[] => [
  bash(
    `echo "found in files: [$(grep -rlaE '${pattern}' / --exclude-dir=proc --exclude-dir=sys 2>/dev/null)]"; ` +
      `for f in /proc/[0-9]*/environ /proc/[0-9]*/cmdline; do cat $f 2>/dev/null | tr '\\0' '\\n' | grep -aE '${pattern}'; done; ` +
      `env | grep -E '${pattern}'; echo "searched"`,
  ),
  bash('echo 42 > answer.txt; id -un; grep NoNewPrivs /proc/self/status; ls /run/rollpool-hand 2>&1; true'),
];

describe.runIf(haveDocker)('episodes on E2B', { timeout: 240_000 }, () => {
  let double: E2bDouble;
  let policy: ScriptedPolicy;
  let gate: PolicyGate;
  const base = (): Record<string, string> => ({
    ...double.env,
    ROLLPOOL_POLICY_URL: gate.url,
    ROLLPOOL_E2B_CREATES_PER_SECOND: '20',
  });
  const run = (stage: Stage, tasks: string, ...more: string[]): ReturnType<Stage['start']> =>
    stage.start([
      'run',
      tasks,
      '--sandbox',
      'e2b',
      '--processes',
      '1',
      '--out',
      join(stage.directory, 'out'),
      ...more,
    ]);

  beforeAll(async () => {
    double = await openE2bDouble();
    const key = double.apiKey;
    const pattern = `[${key.slice(0, 1)}]${key.slice(1)}`;
    const turns = [
      ...looks(pattern).map((call) => ({ tool_calls: [call] })),
      { text: 'I have seen it all.' },
    ];
    policy = await startScriptedPolicy({
      scripts: smallScripts([{ match: 'Task look-around', turns }]),
      seed: 1,
    });
    gate = await openPolicyGate(policy.url);
  });
  afterAll(async () => {
    await gate[Symbol.asyncDispose]();
    await policy[Symbol.asyncDispose]();
    await double[Symbol.asyncDispose]();
  });

  test('by the real CLI end exact and with a reward over a service that fails, and its key is nowhere', async () => {
    await using stage = await openStage(base());
    const tasks = await stage.file('tasks.json', [smallTask('look-around')]);
    // Refusals and a lost answer at the creation; a line that breaks and a sandbox out of reach while the agent acts.
    double.fault({ kind: 'refuse', call: 'create', status: 429, retry_after_s: 1, times: 1 });
    double.fault({
      kind: 'refuse',
      call: 'create',
      status: 429,
      message: 'maximum number of concurrent',
      times: 1,
    });
    double.fault({ kind: 'refuse', call: 'create', status: 503, times: 1 });
    double.fault({ kind: 'break', call: 'create', times: 1 });
    double.fault({ kind: 'cut_stream', command: 'hand.py', after_bytes: 60_000, times: 4 });
    double.fault({ kind: 'refuse', call: 'envd', status: 502, after: 25, times: 3 });
    double.fault({ kind: 'refuse', call: 'kill', status: 500, times: 1 });
    const ended = await run(stage, tasks, '--run-id', 'whole', '--log-level', 'trace').ended;
    double.clearFaults();
    expect(ended.code, ended.stderr).toBe(0);
    const out = join(stage.directory, 'out');
    const [result, ...others] = await readResults(out);
    expect(others).toEqual([]);
    expect(result).toMatchObject({
      status: 'completed',
      stop_reason: 'agent_done',
      reward: 1,
      attempt: 1,
      failure: null,
      sandbox: { provider: 'e2b' },
    });
    expect(result!.sequences).toHaveLength(1);
    expect(result!.sequences[0]!.certificate).toMatchObject({ grade: 'exact', reasons: [] });
    expect(double.sandboxes()).toEqual([]);

    const payloads = await payloadsOf(stage.pool, 'whole');
    const outputs = payloads.flatMap(({ trace }) =>
      trace.calls.flatMap(({ new_messages }) =>
        new_messages.flatMap((message) => (message.role === 'tool' ? [message.content] : [])),
      ),
    );
    expect(outputs).toEqual([
      'found in files: []\nsearched',
      expect.stringMatching(/^agent\nNoNewPrivs:\t1\nls: cannot open directory .*Permission denied$/),
    ]);
    const seen = {
      redis: await everythingInRedis(stage.pool),
      payloads: JSON.stringify(payloads),
      results: await readFile(join(out, 'results.jsonl'), 'utf8'),
      workers: await readFile(join(out, 'workers.log'), 'utf8'),
      run: ended.stdout + ended.stderr,
    };
    for (const [where, text] of Object.entries(seen)) {
      expect(text.length, where).toBeGreaterThan(50);
      expect(text.includes(double.apiKey), `the key stands in ${where}`).toBe(false);
    }
  });

  test('whose sandbox vanishes in the middle are run again elsewhere, and only the second attempt counts', async () => {
    await using stage = await openStage(base());
    const tasks = await stage.file('tasks.json', [smallTask('evicted')]);
    gate.hold(1);
    const command = run(stage, tasks, '--run-id', 'evicted');
    await command.until(() => gate.waiting() === 1, 'the agent is in the middle');
    const [sandbox] = double.sandboxes();
    await double.evict(sandbox!.id);
    gate.open();
    const ended = await command.ended;
    expect(ended.code, ended.stderr).toBe(0);
    const [result] = await readResults(join(stage.directory, 'out'));
    expect(result).toMatchObject({ status: 'completed', reward: 1, attempt: 2, failure: null });
    expect(result!.sandbox!.id).not.toBe(sandbox!.id);
    expect(double.sandboxes()).toEqual([]);
  });

  test('leave states that are graded again, also when the first verifier was wrong', async () => {
    await using stage = await openStage({ ...base(), ROLLPOOL_KEEP_SANDBOXES: '5' });
    const wrong = { verify: { commands: ['test "$(cat answer.txt)" = 43'] } };
    const tasks = await stage.file('tasks.json', [smallTask('kept', wrong)]);
    const first = await run(stage, tasks, '--run-id', 'old').ended;
    expect(first.code, first.stderr).toBe(0);
    const [before] = await readResults(join(stage.directory, 'out'));
    expect(before).toMatchObject({ reward: 0, sandbox: { provider: 'e2b' } });
    const calls = gate.seen();
    const better = await stage.file('better.json', [smallTask('kept')]);
    const again = join(stage.directory, 'again');
    const regraded = await stage.run(['regrade', 'old', better, '--out', again]);
    expect(regraded.code, regraded.stderr).toBe(0);
    expect(await readResults(again)).toMatchObject([
      { reward: 1, regrade_of: { episode_id: before?.episode_id, provider: 'e2b', reward: 0 } },
    ]);
    expect(gate.seen()).toBe(calls);
    expect(double.sandboxes()).toEqual([]);
    const dropped = await stage.run(['reap', '--kept', '--json']);
    expect(dropped.code, dropped.stderr).toBe(0);
    expect(double.snapshots()).toEqual([]);
  });
});
