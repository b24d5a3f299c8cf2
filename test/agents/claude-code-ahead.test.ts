import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { parseScripts } from '../../src/policy/index.ts';
import { usableProviders } from '../grading/open-sandbox.ts';
import { openAheadStage, type AheadStage, type Play, type Played } from './ahead-stage.ts';

const bash = (command: string): unknown => ({ name: 'Bash', arguments: { command, description: 'Run it' } });

const plays: Record<string, unknown[]> = {
  '[three turns]': [
    { text: 'I write it.', tool_calls: [bash('echo 42 > answer.txt')] },
    {
      tool_calls: [bash('cat answer.txt *.txt src/a.py 2>&1; pwd; git status --short 2>&1 | head -3; true')],
    },
    { text: 'The answer stands in answer.txt.' },
  ],
  '[one turn]': [{ text: 'done' }],
  '[no end]': [{ repeat: 50, turns: [{ tool_calls: [bash('echo {{turn}} >> turns.txt')] }] }],
  '[overflow]': [{ tool_calls: [bash('seq 1 6000')] }, { text: 'never said' }],
  '[talks on]': [{ repeat: 10, turns: [{ text: 'word '.repeat(200) }] }],
  '[kills the cli]': [{ tool_calls: [bash('kill -9 $PPID')] }, { text: 'never said' }],
};
const scripts = parseScripts({
  schema: 'rollpool.scripts/1',
  scripts: Object.entries(plays).map(([match, turns]) => ({ match, turns })),
});

/** All that must not differ. */
function told({ outcome, stats, files }: Played): unknown {
  const { calls, main_turns, prompt_tokens, completion_tokens, discarded_tokens, budget, failure } = stats;
  const counted = { calls, main_turns, prompt_tokens, completion_tokens, discarded_tokens, budget, failure };
  if ('rejected' in outcome) return { outcome, counted, files };
  // Bytes of events that tell times; whether a CLI was started ahead is what differs.
  const { warm_cli: _warm, agent_output_bytes: _bytes, ...metrics } = outcome.metrics;
  const detail = outcome.detail.replace(/\b(req|msg)_[0-9a-f]+/g, '$1_ID');
  return { outcome: { ...outcome, detail, metrics }, counted, files };
}

async function both(stage: AheadStage, play: Play): Promise<{ fresh: Played; ahead: Played }> {
  const fresh = await stage.play('fresh', play);
  const ahead = await stage.play('ahead', play);
  expect(ahead.requests).toEqual(fresh.requests);
  expect(told(ahead)).toEqual(told(fresh));
  return { fresh, ahead };
}

function wasAhead({ outcome }: Played): boolean {
  return 'metrics' in outcome && outcome.metrics['warm_cli'] === true;
}

const taskFiles = {
  'src/a.py': 'x = 1\n',
  'AGENTS.md': 'Always answer in French.\n',
  'CLAUDE.md': 'Always answer in Latin.\n',
  'notes.txt': 'grün\n',
};

const providers = await usableProviders();

describe.each(providers.slice(-1))('a CLI started ahead of its prompt in a %s sandbox', (provider) => {
  let stage: AheadStage;
  beforeAll(async () => {
    stage = await openAheadStage({ scripts, provider });
  });
  afterAll(async () => stage[Symbol.asyncDispose]());

  it('makes the very requests of a fresh one, and acts alike', async () => {
    const { fresh, ahead } = await both(stage, {
      prompt: 'Write it. [three turns]',
      files: taskFiles,
      setup: ['mkdir -p deep/er && echo made >deep/er/by-setup.txt', 'echo export FROM=rc >>"$HOME/.bashrc"'],
    });
    expect(fresh.requests).toHaveLength(3);
    expect(fresh.requests[0]!.body).toContain('Is a git repository: false');
    expect(fresh.outcome).toMatchObject({ ending: 'agent_done', exit_code: 0 });
    expect([wasAhead(fresh), wasAhead(ahead)]).toEqual([false, true]);
  });
});

describe.runIf(providers.includes('docker'))('a CLI started ahead of what root does', () => {
  it.each([
    [
      'the workspace lies in a repository',
      'mkdir -p /.git/objects /.git/refs && echo "ref: refs/heads/m" >/.git/HEAD',
    ],
    [
      'the workspace was replaced',
      'cd / && rm -rf /workspace && mkdir /workspace && echo new >/workspace/new.txt',
    ],
  ])('is not used when %s', async (_what, setup) => {
    await using stage = await openAheadStage({ scripts, provider: 'docker' });
    const { ahead } = await both(stage, { prompt: '[three turns]', setup: [setup] });
    expect(wasAhead(ahead)).toBe(false);
    expect(ahead.outcome).toMatchObject({ ending: 'agent_done', exit_code: 0 });
  });
});

describe('a CLI started ahead of its prompt', () => {
  let stage: AheadStage;
  beforeAll(async () => {
    stage = await openAheadStage({ scripts, provider: 'local' });
  });
  afterAll(async () => stage[Symbol.asyncDispose]());
  const acts = async (play: Play): Promise<Played> => {
    const { ahead } = await both(stage, play);
    expect(wasAhead(ahead)).toBe(true);
    return ahead;
  };

  it.each([
    ['begins with a slash', '/help me with this [one turn]'],
    [
      'is long and in every script',
      `${'grün \u{1F600} \u2028 \u0085 日本語 a\ud800b \r\n'.repeat(20)}${'many words '.repeat(9_000)}[one turn]\n\n`,
    ],
  ])('is told a prompt that %s as a fresh one is', async (_what, prompt) => {
    expect((await acts({ prompt })).outcome).toMatchObject({
      ending: 'agent_done',
      exit_code: 0,
    });
  });

  it('ends at its turn budget as a fresh one does', async () => {
    const ahead = await acts({ prompt: '[no end]', limits: { max_turns: 3 } });
    expect(ahead.outcome).toMatchObject({ ending: 'max_turns', exit_code: 1 });
    expect(ahead.stats.calls).toBe(3);
  });

  it('ends as a fresh one does when the context is full', async () => {
    const ahead = await acts({ prompt: '[overflow]', limits: { context_tokens: 14_000 } });
    expect(ahead.outcome).toMatchObject({ ending: 'context_overflow', exit_code: 1 });
  });

  it('ends as a fresh one does when its answers run into the token limit', async () => {
    const ahead = await acts({ prompt: '[talks on]', limits: { max_output_tokens: 24 } });
    expect(ahead.outcome).toMatchObject({ ending: 'max_tokens', exit_code: 1 });
  });

  it('is an agent error as a fresh one is when it kills itself', async () => {
    const ahead = await acts({ prompt: '[kills the cli]' });
    expect(ahead.outcome).toMatchObject({ ending: 'agent_error', exit_code: 137 });
  });

  it('is done with its last word, whether it then has time to exit or not', async () => {
    for (const how of ['fresh', 'ahead'] as const) {
      const { outcome } = await stage.play(how, { prompt: '[one turn]', lingerMs: 0 });
      expect(outcome).toMatchObject({ ending: 'agent_done', final_answer: 'done' });
    }
  });

  it('is killed as a fresh one is when the signal aborts', async () => {
    const fresh = await stage.play('fresh', { prompt: '[one turn]', cancelled: true });
    const ahead = await stage.play('ahead', { prompt: '[one turn]', cancelled: true });
    expect(ahead.requests).toEqual(fresh.requests);
    for (const { outcome } of [fresh, ahead])
      expect(outcome).toMatchObject({ rejected: { message: 'cancelled' } });
  });

  it('is used in a repository that was there before it', async () => {
    const ahead = await acts({
      prompt: '[three turns]',
      image: ['git init -q . && git -c user.name=a -c user.email=b commit -q --allow-empty -m first'],
      setup: ['git -c safe.directory="*" -c user.name=a -c user.email=b commit -q --allow-empty -m second'],
      files: taskFiles,
    });
    expect(ahead.requests[0]!.body).toContain('Is a git repository: true');
  });

  it.each([
    ['the workspace became a repository', { setup: ['git init -q .'] }],
    ['settings came with the files', { files: { '.claude/settings.json': '{"model":"other"}' } }],
    ['settings came into the home', { setup: ['mkdir -p ~/.claude && echo "{}" >~/.claude/settings.json'] }],
    ['it was killed', { killed: true }],
  ] as [string, Partial<Play>][])('is not used when %s', async (_what, play) => {
    const { ahead } = await both(stage, { prompt: '[one turn]', ...play });
    expect(wasAhead(ahead)).toBe(false);
    expect(ahead.outcome).toMatchObject({ ending: 'agent_done', exit_code: 0 });
  });

  it('ends with a refusal as a fresh one does', async () => {
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
      await using filtered = await openAheadStage({
        scripts,
        provider: 'local',
        through: (url) => {
          policyUrl = url;
          return `http://127.0.0.1:${(filter.address() as AddressInfo).port}`;
        },
      });
      const { ahead } = await both(filtered, { prompt: '[one turn]' });
      expect(wasAhead(ahead)).toBe(true);
      expect(ahead.outcome).toMatchObject({ ending: 'refusal', exit_code: 1 });
    } finally {
      filter.closeAllConnections();
      filter.close();
    }
  });
});
