import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { startScriptedPolicy, type ScriptedPolicy } from '../../src/policy/index.ts';
import { docker, haveDocker } from '../sandbox/docker-daemon.ts';
import { openPolicyGate, type PolicyGate } from './policy-gate.ts';
import { everythingInRedis, payloadsOf } from './redis-content.ts';
import { bash, smallScripts, smallTask } from './small-tasks.ts';
import { openStage } from './stage.ts';

const key = `policy-key-${process.pid}-q7w8e9r0`;
/** Matches the key and not itself, so that a search does not find its own command. */
const pattern = key.replace('policy-key', '[p]olicy-key');

/** A bearer as the gateway makes it. */
const bearerPattern = /rp-[A-Za-z0-9_-]{43}/;

/** Everything the agent can look at: files, environments, arguments, open descriptors, the network. */
const looks = [
  bash(
    `echo "found in files: [$(grep -rlaE '${pattern}' / --exclude-dir=proc --exclude-dir=sys 2>/dev/null)]"`,
  ),
  bash(
    `echo "processes: $(ls -d /proc/[0-9]* | wc -l)"; for f in /proc/[0-9]*/environ /proc/[0-9]*/cmdline; do ` +
      `cat $f 2>/dev/null | tr '\\0' '\\n' | grep -aE '${pattern}'; done; env | grep -E '${pattern}'; echo "processes searched"`,
  ),
  // Its own credential stands in its environment, and in no file and no argument.
  bash(
    `t="$ANTHROPIC_AUTH_TOKEN"; echo "bearer of \${#t} letters"; for f in /proc/[0-9]*/cmdline; do ` +
      `a="$(cat $f 2>/dev/null | tr '\\0' ' ')"; [[ "$a" == *"$t"* ]] && echo "in arguments: $f"; done; ` +
      `printf %s "$t" | { read -r t; grep -rlaF -f <(echo "$t") / --exclude-dir=proc --exclude-dir=sys 2>/dev/null | ` +
      `sed 's/^/in file: /'; }; echo "bearer searched"`,
  ),
  bash(
    `python3 -c "import socket; print(sorted(name for _i, name in socket.if_nameindex()))"; ` +
      `(exec 3<>/dev/tcp/127.0.0.1/6379) 2>&1 | head -n 1; (exec 3<>/dev/tcp/192.0.2.1/80) 2>&1 | head -n 1`,
  ),
];

describe.runIf(haveDocker)('the key of the policy', { timeout: 180_000 }, () => {
  let policy: ScriptedPolicy;
  let gate: PolicyGate;
  beforeAll(async () => {
    const turns = [...looks.map((call) => ({ tool_calls: [call] })), { text: 'I have seen it all.' }];
    const scripts = smallScripts([{ match: 'Task look-around', turns }]);
    policy = await startScriptedPolicy({ scripts, seed: 1, apiKey: key });
    gate = await openPolicyGate(policy.url);
  });
  afterAll(async () => {
    await gate[Symbol.asyncDispose]();
    await policy[Symbol.asyncDispose]();
  });

  test('is needed, and without it run says so in one line', async () => {
    await using stage = await openStage({ ROLLPOOL_POLICY_URL: gate.url });
    const tasks = await stage.file('tasks.json', [smallTask('any')]);
    const ended = await stage.run(['run', tasks, '--out', join(stage.directory, 'out')]);
    expect(ended).toMatchObject({ code: 2, stdout: '' });
    expect(ended.stderr).toMatch(/^rollpool: the policy at \S+ refuses the API key \(HTTP 401\)\n$/);
  });

  test('is nowhere an agent, a job, a result or a log could show it', async () => {
    await using stage = await openStage({
      ROLLPOOL_POLICY_URL: gate.url,
      ROLLPOOL_POLICY_API_KEY: key,
      ROLLPOOL_TOOL_SECONDS: '90',
    });
    const tasks = await stage.file('tasks.json', [smallTask('look-around')]);
    const out = join(stage.directory, 'out');
    gate.hold(1);
    const args = [
      'run',
      tasks,
      '--run-id',
      'secret',
      '--processes',
      '1',
      '--out',
      out,
      '--log-level',
      'trace',
    ];
    const command = stage.start(args);
    await command.until(() => gate.waiting() === 1, 'the agent is in the middle');
    const [container] = await stage.containers();
    const inspected = JSON.stringify(await docker.getContainer(container!.Id).inspect());
    expect(inspected).toContain(stage.pool);
    expect(inspected).not.toContain(key);
    gate.open();
    const ended = await command.ended;
    expect(ended.code, ended.stderr).toBe(0);

    const payloads = await payloadsOf(stage.pool, 'secret');
    const outputs = payloads.flatMap(({ trace }) =>
      trace.calls.flatMap(({ new_messages }) =>
        new_messages.flatMap((message) => (message.role === 'tool' ? [message.content] : [])),
      ),
    );
    expect(outputs).toHaveLength(looks.length);
    const [files, processes, bearer, network] = outputs as [string, string, string, string];
    expect(files).toBe('found in files: []');
    expect(processes).toMatch(/^processes: \d+\nprocesses searched$/);
    expect(bearer).toMatch(/^bearer of 46 letters\nbearer searched$/);
    expect(network).toMatch(/^\['lo'\]\n.*refused\n.*unreachable$/);

    const seen = {
      redis: await everythingInRedis(stage.pool),
      payloads: JSON.stringify(payloads),
      results: await readFile(join(out, 'results.jsonl'), 'utf8'),
      workers: await readFile(join(out, 'workers.log'), 'utf8'),
      run: ended.stdout + ended.stderr,
    };
    for (const [where, text] of Object.entries(seen)) {
      expect(text.length, where).toBeGreaterThan(100);
      expect(text.includes(key), `the key stands in ${where}`).toBe(false);
    }
    // What opens an attempt's gateway is nobody else's business either.
    expect(seen.workers).not.toMatch(bearerPattern);
    expect(seen.redis).not.toMatch(bearerPattern);
  });
});
