import { readFileSync, readdirSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import type { Result } from '../../src/contracts/index.ts';
import type { SampledCall } from '../../src/policy/index.ts';
import { haveDocker } from '../sandbox/docker-daemon.ts';
import { messageTask } from './fleet/stage.ts';
import { until } from '../support/wait.ts';
import { openStage, places, placesOf, readResults, type Stage } from './stage.ts';

const codingTasks = ['fix-median', 'rename-option', 'repair-totals', 'write-slugify'];
const fleetTasks = ['bw_book_e_bike', 'bw_over_limit', 'bw_ready_for_collection', 'bw_wrong_cassette'];
const allFleetTasks = [
  ...fleetTasks,
  ...['bw_brass_bell', 'bw_moving_away', 'bw_reorder_brakes', 'bw_sick_mechanic', 'bw_tyre_price'],
];
const textTasks = ['first', 'second', 'third', 'fourth'];

interface Case {
  readonly name: string;
  readonly tasks: readonly string[];
  /** Of `examples/`, with its policy beside it. Default: tasks whose scripts call tools in text. */
  readonly file?: string;
  readonly template: 'plain' | 'hostile';
  readonly sandbox?: 'docker' | 'local';
  readonly toolMode?: 'native' | 'text';
}

const demo = { file: 'demo', tasks: [...codingTasks, ...fleetTasks] };
const fleet = { file: 'bike-workshop', tasks: allFleetTasks };
const cases: readonly Case[] = [
  ...(haveDocker
    ? [{ name: 'both kinds of task, in docker', ...demo, sandbox: 'docker', template: 'plain' } as const]
    : []),
  { name: 'both kinds of task, in local', ...demo, sandbox: 'local', template: 'hostile' },
  { name: 'Fleet tasks alone', ...fleet, template: 'plain', toolMode: 'native' },
  { name: 'tools called in text', tasks: textTasks, template: 'plain', toolMode: 'text' },
  { name: 'tools called in text', tasks: textTasks, template: 'hostile', toolMode: 'text' },
];

/** Writes a tasks file and a policy that calls tools in its text; gives their paths. */
async function writeTextCase(stage: Stage): Promise<{ tasks: string; scripts: string }> {
  const tell = (body: string): string =>
    `<tool_call>${JSON.stringify({ name: 'send_message', arguments: { customer_id: 101, body } })}</tool_call>`;
  const turns = [
    { text: '<tool_call>{"name": "get_customer", "arguments": {"customer_id": 101}}</tool_call>' },
    {
      branches: [
        { p: 1, turns: [{ text: [`I tell them. ${tell('Your bike is ready.')}`] }] },
        { p: 1, turns: [{ text: `They wait. ${tell('Come and see.')}` }] },
      ],
    },
    { text: ['They know. <done>', 'That is all. <done>'] },
  ];
  const scripts = { schema: 'rollpool.scripts/1', scripts: [{ match: 'Tell customer 101', turns }] };
  return {
    tasks: await stage.file(
      'tasks.json',
      textTasks.map((task_key) => messageTask({ task_key })),
    ),
    scripts: await stage.file('scripts.json', scripts),
  };
}

/** Processes that have the pool in their environment; none where there is no /proc. */
function processesOf(pool: string): number[] {
  if (process.platform !== 'linux') return [];
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .filter((name) => {
      try {
        return readFileSync(`/proc/${name}/environ`, 'utf8').includes(pool);
      } catch {
        return false;
      }
    })
    .map(Number);
}

/** A sampled call as one text: what stood before it, what was sampled, and with which float32 logprobs. */
function callText(prompt: readonly number[], ids: readonly number[], logprobs: readonly number[]): string {
  return JSON.stringify([prompt, ids, logprobs.map(Math.fround)]);
}

/** Every turn of every sequence; checks that the loss mask covers these and nothing else. */
function turnsOf(results: readonly Result[]): string[] {
  return results.flatMap(({ sequences }) =>
    sequences.flatMap(({ token_ids, loss_mask, logprobs, turns, prompt_len }) => {
      const mask = token_ids.map(() => 0);
      for (const { start, end } of turns) mask.fill(1, start, end);
      expect(loss_mask).toEqual(mask);
      expect(turns[0]?.start).toBe(prompt_len);
      expect(logprobs.filter((_logprob, at) => loss_mask[at] === 0).every((logprob) => logprob === 0)).toBe(
        true,
      );
      return turns.map(({ start, end }) =>
        callText(token_ids.slice(0, start), token_ids.slice(start, end), logprobs.slice(start, end)),
      );
    }),
  );
}

test.each(cases)(
  'rollpool run gives exactly the tokens that the policy sampled: $name, under the $template template',
  { timeout: 180_000 },
  async ({ file, tasks, template, sandbox, toolMode }) => {
    // A file of Fleet tasks alone needs neither Docker nor the Claude Code CLI.
    const bare = { DOCKER_HOST: 'unix:///nowhere/docker.sock', ROLLPOOL_CLAUDE_CLI: '/nowhere/claude' };
    await using stage = await openStage({
      ...(sandbox === undefined ? bare : {}),
      ...(toolMode === undefined ? {} : { ROLLPOOL_TOOL_MODE: toolMode }),
    });
    const samplesLog = join(stage.directory, 'samples.jsonl');
    const out = join(stage.directory, 'out');
    const from =
      file === undefined
        ? await writeTextCase(stage)
        : { tasks: `examples/${file}.json`, scripts: `examples/${file}.policy.json` };
    const scripts = ['--scripts', from.scripts, '--template', template, '--seed', '10'];
    const policy = stage.start(['policy', ...scripts, '--samples-log', samplesLog, '--log-level', 'warn']);
    const [url] = await policy.says(/http:\S+/, 'the policy listens');

    const where = [
      ...(sandbox === undefined ? [] : ['--sandbox', sandbox]),
      // The policy knows earlier turns by their text: two episodes that say the same at once in other tokens confuse it.
      ...(file === undefined ? ['--processes', '1', '--concurrency', '1'] : []),
      ...['--policy-url', url, '--out', out],
    ];
    const run = stage.start(['run', from.tasks, '--samples', '2', ...where]);
    const ended = await run.ended;
    expect(ended.code, ended.stderr).toBe(0);
    const results = await readResults(out);
    expect(placesOf(results)).toEqual(places(tasks, 2));
    expect(new Set(results.map(({ episode_id }) => episode_id)).size).toBe(2 * tasks.length);
    for (const task of tasks) expect(ended.stdout).toContain(task);

    // What no script matched are the probes of the workers.
    const sampled = (await readFile(samplesLog, 'utf8'))
      .split('\n')
      .filter((line) => line !== '')
      .map((line) => JSON.parse(line) as SampledCall)
      .filter(({ script }) => script !== null)
      .map(({ prompt_token_ids, token_ids, logprobs }) => callText(prompt_token_ids, token_ids, logprobs));
    expect(sampled.length).toBeGreaterThan(20);
    expect(turnsOf(results).sort()).toEqual(sampled.sort());

    const grades = results.flatMap(({ sequences }) => sequences.map(({ certificate }) => certificate.grade));
    // Prompts go on from recorded ids: no template breaks a history that was only appended to.
    expect(new Set(grades)).toEqual(new Set(['exact']));
    for (const { sequences, grades: counted, usage, attempt, status } of results) {
      const of = (grade: string): number =>
        sequences.filter((each) => each.certificate.grade === grade).length;
      expect(counted).toEqual({ exact: of('exact'), forked: of('forked'), untrainable: 0 });
      expect(sequences).toHaveLength(1);
      expect(usage.discarded_tokens).toBe(0);
      expect([attempt, status]).toEqual([1, 'completed']);
    }

    const rewardsOf = (task: string): Set<number | null> =>
      new Set(results.flatMap(({ task_key, reward }) => (task_key === task ? [reward] : [])));
    for (const kind of [codingTasks, allFleetTasks, textTasks]) {
      const played = kind.filter((task) => tasks.includes(task));
      if (played.length > 0) expect(played.filter((task) => rewardsOf(task).size > 1)).not.toEqual([]);
    }

    // The local Fleet that it brought ended with it, and so did everything else.
    const [, fleetUrl] = /^local Fleet: (\S+)$/m.exec(ended.stderr) ?? [];
    await expect(fetch(fleetUrl!)).rejects.toThrow('fetch failed');
    // Its Redis is told to stop as the last thing, and may need a moment on a busy machine.
    await until(() => processesOf(stage.pool).length === 1, 'the policy is the only process left');
    expect(processesOf(stage.pool)).toEqual([policy.pid]);
    expect(readdirSync(tmpdir()).filter((name) => name.includes(`-${run.pid}-`))).toEqual([]);
    expect(await stage.containers()).toEqual([]);

    policy.kill('SIGTERM');
    expect((await policy.ended).code).toBe(0);
  },
);
