import { once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { sessionUuid } from '../../src/agents/claude-code/command.ts';
import { createStartGate } from '../../src/agents/index.ts';
import type { EpisodeError } from '../../src/contracts/index.ts';
import { type ChatMessage } from '../../src/contracts/index.ts';
import { parseScripts } from '../../src/policy/index.ts';
import { usableProviders } from '../grading/open-sandbox.ts';
import { until } from '../support/wait.ts';
import { openStage, type ClaudeEpisode, type ClaudeStage } from './claude-episode.ts';

const bash = (command: string): unknown => ({ name: 'Bash', arguments: { command, description: 'Run it' } });

/** A call of the agent's own to the gateway, past the CLI. */
const selfCall = `
import http.client, json, os, socket
class Gateway(http.client.HTTPConnection):
    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(os.environ["ANTHROPIC_UNIX_SOCKET"])
gateway = Gateway("localhost")
body = {"model": "policy", "max_tokens": 50, "messages": [{"role": "user", "content": "[my own call]"}]}
headers = {"authorization": "Bearer " + os.environ["ANTHROPIC_AUTH_TOKEN"], "content-type": "application/json"}
gateway.request("POST", "/v1/messages", json.dumps(body), headers)
answer = gateway.getresponse()
print(answer.status, json.loads(answer.read())["content"][0]["text"])
`;

const plays: Record<string, unknown[]> = {
  '[three turns]': [
    { text: 'I write it.', tool_calls: [bash('echo 42 > answer.txt')] },
    { tool_calls: [bash('cat answer.txt; id -un; pwd')] },
    { text: 'The answer stands in answer.txt.' },
  ],
  '[no end]': [{ repeat: 50, turns: [{ tool_calls: [bash('echo {{turn}} >> turns.txt')] }] }],
  '[bad json]': [
    { tool_calls: [{ name: 'Bash', arguments: '{"command": "echo hi' }] },
    { text: 'That was no JSON.' },
  ],
  '[two at once]': [
    { tool_calls: [bash('echo first > a.txt; echo one'), bash('echo second > b.txt; echo two')] },
    { text: 'Both are done.' },
  ],
  '[edit]': [
    {
      tool_calls: [
        { name: 'Write', arguments: { file_path: '{{workdir}}/m.py', content: 'x = 1\ny = 2\n' } },
      ],
    },
    {
      tool_calls: [
        {
          name: 'Edit',
          arguments: { file_path: '{{workdir}}/m.py', old_string: 'y = 2', new_string: 'y = 3' },
        },
      ],
    },
    { text: 'Edited.' },
  ],
  '[slash]': [{ text: 'Here is help.' }],
  '[left behind]': [
    {
      tool_calls: [
        bash(
          `setsid bash -c 'while :; do echo 1 > reward.txt; sleep 0.01; done' >/dev/null 2>&1 & sleep 0.2`,
        ),
      ],
    },
    { text: 'I leave something behind.' },
  ],
  '[own reward]': [{ tool_calls: [bash('echo 1 > reward.txt')] }, { text: 'I graded myself.' }],
  '[much output]': [
    { tool_calls: [bash('head -c 200000 /dev/zero | tr "\\0" x')] },
    { text: 'That was long.' },
  ],
  '[calls itself]': [
    { tool_calls: [bash(`cat > call.py <<'EOF'${selfCall}EOF\npython3 call.py > said.txt`)] },
    { text: 'I asked it myself.' },
  ],
  '[my own call]': [{ text: 'hello to you' }],
  '[kills the cli]': [{ tool_calls: [bash('kill -9 $PPID')] }, { text: 'never said' }],
  '[overflow]': [{ tool_calls: [bash('seq 1 6000')] }, { text: 'never said' }],
  '[talks on]': [{ repeat: 10, turns: [{ text: 'word '.repeat(200) }] }],
  '[waits]': [{ text: 'done' }],
  '[refuses]': [{ text: 'I will not do that.' }],
};
const scripts = parseScripts({
  schema: 'rollpool.scripts/1',
  scripts: Object.entries(plays).map(([match, turns]) => ({ match, turns })),
});

let stage: ClaudeStage;
beforeAll(async () => {
  stage = await openStage({ scripts });
});
afterAll(async () => stage[Symbol.asyncDispose]());

/** Whether the CLI of an episode lives in its sandbox. */
async function cliLives({ sandbox, id }: ClaudeEpisode): Promise<boolean> {
  const marks = `for f in /proc/[0-9]*/cmdline; do tr '\\0' '\\n' < $f 2>/dev/null | grep -qx '${sessionUuid(id, 1)}' && echo $f; done; true`;
  const found = await sandbox.exec(marks, { timeout_ms: 30_000 });
  return found.stdout.trim() !== '';
}

function toolResults(messages: readonly ChatMessage[]): string[] {
  return messages.flatMap((message) => (message.role === 'tool' ? [message.content] : []));
}

const providers = await usableProviders();

describe.each(providers)('Claude Code in a %s sandbox', (provider) => {
  it('acts with its tools and ends by itself', async () => {
    await using episode = await stage.open(provider, { prompt: 'Write the answer. [three turns]' });
    const outcome = await episode.run();
    expect(outcome).toMatchObject({
      ending: 'agent_done',
      exit_code: 0,
      detail: '',
      final_answer: 'The answer stands in answer.txt.',
      metrics: { tool_calls: 2 },
    });
    const { calls, stats } = await episode.finish();
    expect(stats).toMatchObject({ calls: 3, main_turns: 3, self_calls: 0, budget: null, failure: null });
    expect(calls.map((call) => [call.role, call.fate])).toEqual([
      ['main', 'delivered'],
      ['main', 'delivered'],
      ['main', 'delivered'],
    ]);
    const graded = await episode.grade({ commands: ['test "$(cat answer.txt)" = 42'] });
    expect(graded.reward).toBe(1);
  });

  it('ends at its turn budget, after exactly that many calls', async () => {
    await using episode = await stage.open(provider, { prompt: '[no end]', limits: { max_turns: 3 } });
    expect(await episode.run()).toMatchObject({ ending: 'max_turns', exit_code: 1 });
    expect((await episode.finish()).stats.calls).toBe(3);
  });

  it('ends by itself and leaves the dead behind: nothing of it lives when the grading begins', async () => {
    await using episode = await stage.open(provider, { prompt: '[left behind]' });
    expect(await episode.run()).toMatchObject({ ending: 'agent_done' });
    await until(() => episode.sandbox.read('reward.txt', 10), 'what was left behind is at work');
    const graded = await episode.grade({
      commands: ['test ! -e reward.txt && sleep 0.2 && test ! -e reward.txt; echo $? > reward.txt'],
      reward: 'file:reward.txt',
    });
    expect(graded.reward).toBe(0);
  });

  it('may call the gateway itself, and is seen to', async () => {
    await using episode = await stage.open(provider, { prompt: '[calls itself]' });
    expect(await episode.run()).toMatchObject({ ending: 'agent_done' });
    expect(Buffer.from((await episode.sandbox.read('said.txt', 100)) ?? '').toString()).toBe(
      '200 hello to you\n',
    );
    const { calls, stats } = await episode.finish();
    expect(stats).toMatchObject({ main_turns: 2, self_calls: 1 });
    expect(calls.find((call) => call.role === 'auxiliary')?.notes).toContain('foreign_client');
  });

  it('is an agent error when it kills its own CLI', async () => {
    await using episode = await stage.open(provider, { prompt: '[kills the cli]' });
    const outcome = await episode.run();
    expect(outcome).toMatchObject({ ending: 'agent_error', exit_code: 137 });
    expect(outcome.detail).toContain('was killed by SIGKILL');
    expect((await episode.grade({ commands: ['true'] })).reward).toBe(1);
  });

  it('is killed with all its processes when the signal aborts', async () => {
    stage.policy.fault({ kind: 'hang' });
    await using episode = await stage.open(provider, { prompt: '[waits]' });
    const controller = new AbortController();
    const running = episode.run(controller.signal);
    running.catch(() => undefined);
    await until(() => episode.session.stats().calls > 0, 'the first call is made');
    expect(await cliLives(episode)).toBe(true);
    const reason = new Error('cancelled');
    controller.abort(reason);
    await expect(running).rejects.toBe(reason);
    expect(await cliLives(episode)).toBe(false);
  });

  it('says so when there is no CLI, or one that does not run there', async () => {
    const failureOf = async (cli: string | null): Promise<unknown> => {
      await using episode = await stage.open(provider, { prompt: '[waits]', cli });
      return await episode.run().catch((error: unknown) => (error as EpisodeError).failure);
    };
    expect(await failureOf(null)).toMatchObject({ class: 'infra', code: 'cli_missing', retryable: false });
    const directory = await mkdtemp(join(tmpdir(), `rp-${process.pid}-`));
    try {
      const cli = join(directory, 'claude');
      await writeFile(cli, '#!/no-such-interpreter\n', { mode: 0o755 });
      expect(await failureOf(cli)).toMatchObject({ class: 'task', code: 'cli_not_runnable' });
    } finally {
      await rm(directory, { recursive: true, force: true });
    }
  });
});

describe('Claude Code', () => {
  const open = (prompt: string, limits = {}): Promise<ClaudeEpisode> =>
    stage.open('local', { prompt, limits });

  it('goes on after a tool call that is no JSON', async () => {
    await using episode = await open('[bad json]');
    expect(await episode.run()).toMatchObject({ ending: 'agent_done', final_answer: 'That was no JSON.' });
    const { calls } = await episode.finish();
    expect(toolResults(calls[1]?.new_messages ?? []).join()).toMatch(/could not be parsed/);
  });

  it('calls two tools at once', async () => {
    await using episode = await open('[two at once]');
    expect(await episode.run()).toMatchObject({ ending: 'agent_done', metrics: { tool_calls: 2 } });
    const graded = await episode.grade({
      commands: ['test "$(cat a.txt b.txt | tr -d "\\n")" = firstsecond'],
    });
    expect(graded.reward).toBe(1);
    const { calls } = await episode.finish();
    expect(toolResults(calls[1]?.new_messages ?? [])).toEqual(['one', 'two']);
  });

  it('edits a file it wrote', async () => {
    await using episode = await open('[edit]');
    expect(await episode.run()).toMatchObject({ ending: 'agent_done' });
    const text = Buffer.from((await episode.sandbox.read('m.py', 100)) ?? '').toString();
    expect(text).toBe('x = 1\ny = 3\n');
  });

  it('is given a prompt that begins with a slash as it stands', async () => {
    await using episode = await open('/help me with this [slash]');
    expect(await episode.run()).toMatchObject({ ending: 'agent_done', final_answer: 'Here is help.' });
    expect((await episode.finish()).stats.calls).toBe(1);
  });

  it('gets no reward for a reward file of its own', async () => {
    await using episode = await open('[own reward]');
    expect(await episode.run()).toMatchObject({ ending: 'agent_done' });
    await expect(episode.grade({ commands: ['true'], reward: 'file:reward.txt' })).rejects.toMatchObject({
      failure: { class: 'task', code: 'reward_missing' },
    });
  });

  it('may print 200 KB', async () => {
    await using episode = await open('[much output]');
    expect(await episode.run()).toMatchObject({ ending: 'agent_done', final_answer: 'That was long.' });
    const { calls } = await episode.finish();
    expect(toolResults(calls[1]?.new_messages ?? []).join().length).toBeLessThan(40_000);
  });

  it('ends when the context is full', async () => {
    await using episode = await open('[overflow]', { context_tokens: 14_000 });
    expect(await episode.run()).toMatchObject({ ending: 'context_overflow', exit_code: 1 });
    const { stats } = await episode.finish();
    expect(stats).toMatchObject({ budget: 'context_overflow', failure: null });
  });

  it('ends when its answers keep running into the token limit', async () => {
    await using episode = await open('[talks on]', { max_output_tokens: 24 });
    expect(await episode.run()).toMatchObject({ ending: 'max_tokens', exit_code: 1 });
    expect((await episode.finish()).stats.calls).toBe(4);
  });

  it('ends with a refusal when the policy refuses', async () => {
    // The scripted policy never refuses: this stands in for a filter that an engine may have behind it.
    let policyUrl = '';
    const filter = createServer((request, response) => {
      void (async () => {
        const chunks: Buffer[] = [];
        for await (const chunk of request) chunks.push(chunk as Buffer);
        const answer = await fetch(policyUrl + request.url, {
          method: request.method ?? 'GET',
          headers: { 'content-type': 'application/json' },
          ...(chunks.length > 0 ? { body: Buffer.concat(chunks) } : {}),
        });
        const text = await answer.text();
        response.writeHead(answer.status, { 'content-type': 'application/json' });
        response.end(text.replace(/("finish_reason":\s*)"stop"/, '$1"content_filter"'));
      })();
    });
    filter.listen(0, '127.0.0.1');
    await once(filter, 'listening');
    try {
      await using filtered = await openStage({
        scripts,
        through: async (url) => {
          policyUrl = url;
          return `http://127.0.0.1:${(filter.address() as AddressInfo).port}`;
        },
      });
      await using episode = await filtered.open('local', { prompt: '[refuses]' });
      expect(await episode.run()).toMatchObject({ ending: 'refusal', exit_code: 1 });
      expect((await episode.finish()).stats).toMatchObject({ calls: 1, failure: null });
    } finally {
      filter.closeAllConnections();
      filter.close();
    }
  });

  it('is ended when the gateway has given the policy up', async () => {
    stage.policy.fault({ kind: 'status', status: 500, times: 1_000 });
    try {
      await using episode = await open('[waits]', { turn_seconds: 1 });
      const { failed } = episode.session;
      await expect(episode.run(failed)).rejects.toBeDefined();
      expect(failed.aborted).toBe(true);
      expect((await episode.finish()).stats.failure).toMatchObject({ class: 'infra' });
    } finally {
      stage.policy.clearFaults();
    }
  });

  it('holds a place in the start gate only until its first call', async () => {
    const startGate = createStartGate(1);
    stage.policy.fault({ kind: 'hang' });
    await using slow = await stage.open('local', { prompt: '[waits]', startGate });
    const controller = new AbortController();
    const running = slow.run(controller.signal);
    running.catch(() => undefined);
    await until(() => slow.session.stats().calls > 0, 'the first call is made');
    await using quick = await stage.open('local', { prompt: '[waits]', startGate });
    expect(await quick.run()).toMatchObject({ ending: 'agent_done' });
    controller.abort(new Error('enough'));
    await expect(running).rejects.toThrow('enough');
  });
});
