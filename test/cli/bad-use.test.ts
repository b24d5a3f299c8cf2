import { mkdtemp, readdir, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { startScriptedPolicy, type ScriptedPolicy } from '../../src/policy/index.ts';
import { createQueue } from '../../src/queue/index.ts';
import { smallScripts, smallTask } from '../e2e/small-tasks.ts';
import { freshPrefix, testRedisUrl } from '../support/redis.ts';
import { expectOneLine, invoke, type Invoked } from './invoke.ts';
import { startLockedRedis } from './locked-redis.ts';

const key = 'sesame';
const nowhere = 'http://127.0.0.1:1';
const noDocker = { DOCKER_HOST: 'unix:///nowhere/docker.sock' };

let directory: string;
let policy: ScriptedPolicy;
let tasks: string;
let pool: string;
let env: Record<string, string>;

beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), `rollpool-bad-use-${process.pid}-`));
  policy = await startScriptedPolicy({ scripts: smallScripts(), apiKey: key });
  tasks = await file('tasks.json', [smallTask('a')]);
  pool = freshPrefix();
  env = {
    REDIS_URL: testRedisUrl(),
    ROLLPOOL_PREFIX: pool,
    ROLLPOOL_STATE_DIR: join(directory, 'state'),
    ROLLPOOL_POLICY_URL: policy.url,
    ROLLPOOL_POLICY_API_KEY: key,
  };
});

afterAll(async () => {
  await policy[Symbol.asyncDispose]();
  await rm(directory, { recursive: true });
});

async function file(name: string, content: unknown): Promise<string> {
  const path = join(directory, name);
  await writeFile(path, typeof content === 'string' ? content : JSON.stringify(content));
  return path;
}

async function runs(): Promise<string[]> {
  await using queue = await createQueue({ redisUrl: testRedisUrl(), prefix: pool });
  return (await queue.listRuns()).map(({ run_id }) => run_id);
}

describe('a command line', () => {
  test.each([
    [['nope'], ["unknown command 'nope'", 'rollpool --help']],
    [
      ['run', 'x.json', '--nope'],
      ["unknown option '--nope'", 'rollpool run --help'],
    ],
    [
      ['template', 'build', '--cpus', '0'],
      ["'--cpus <n>' argument '0'", 'rollpool template build --help'],
    ],
    [
      ['run', 'x.json', '--sampels', '2'],
      ['--sampels', 'Did you mean --samples?'],
    ],
    [['run'], ["missing required argument 'tasks'"]],
    [['worker', 'extra'], ['too many arguments']],
    [
      ['run', 'x.json', '--samples', '0'],
      ['--samples', 'whole number of at least 1'],
    ],
    [
      ['run', 'x.json', '--limit', 'x'],
      ['--limit', 'whole number of at least 1'],
    ],
    [
      ['run', 'x.json', '--sandbox', 'vm'],
      ['--sandbox', 'docker, e2b, local'],
    ],
    [
      ['enqueue', 'x.json', '--run-id', 'a b'],
      ['--run-id', 'a b', 'letters, digits'],
    ],
    [['enqueue', 'x.json', '--batch', ''], ['--batch']],
    [['worker', '--processes', '0'], ['--processes']],
    [['worker', '--cli-starts', '0'], ['--cli-starts']],
    [
      ['worker', '--concurrency', '0'],
      ['--concurrency', 'above 0'],
    ],
    [
      ['worker', '--lanes', 'nope'],
      ['--lanes', 'claude_code-docker'],
    ],
    [
      ['worker', '--lanes', 'claude_code-local'],
      ['--lanes', 'does not isolate'],
    ],
    [
      ['policy', '--scripts', 'x.json', '--port', 'x'],
      ['--port', 'from 0 to 65535'],
    ],
    [
      ['policy', '--scripts', 'x.json', '--port', '65536'],
      ['--port', 'from 0 to 65535'],
    ],
    [['policy'], ['--scripts']],
    [['cancel'], ['one of', '--group', '--episode']],
    [['cancel', 'a', '--episode', 'b'], ['one of']],
  ])('%j gets one line', async (args, words) => {
    expectOneLine(await invoke(args, env), ...words);
  });

  test('every command has help for each flag it takes', async () => {
    const { code, stdout } = await invoke(['--help']);
    expect(code).toBe(0);
    const commands = [
      'run',
      'enqueue',
      'worker',
      'feeder',
      'results',
      'status',
      'cancel',
      'policy',
      'reap',
      'doctor',
    ];
    for (const command of commands) {
      expect(stdout).toMatch(new RegExp(`^  ${command} `, 'm'));
      const help = await invoke([command, '--help']);
      expect(help.code).toBe(0);
      for (const line of help.stdout.split('\n').filter((one) => one.startsWith('  -'))) {
        // A flag that fills its column has its words on the next line.
        expect(line).toMatch(/^ {2}(-h, )?--[a-z-]+( <[a-z]+>)?( {2,}\S.*|)$/);
      }
    }
  });

  test('several faults of the environment are told at once', async () => {
    const { code, stderr } = await invoke(['status'], { REDIS_URL: 'http://x', ROLLPOOL_MAX_TURNS: 'many' });
    expect(code).toBe(2);
    expect(stderr).toMatch(/REDIS_URL: .*\n {2}ROLLPOOL_MAX_TURNS: /);
  });
});

describe('a tasks file', () => {
  afterEach(async () => expect(await runs()).toEqual([]));

  test.each(['run', 'enqueue'])('that is missing or broken is refused by %s', async (command) => {
    expectOneLine(await invoke([command, '/nowhere/x.json'], env), '/nowhere/x.json: there is no such file');
    expectOneLine(await invoke([command, directory], env), `${directory}: is a directory`);
    const broken = await file('broken.json', '[{"task_key": "a",\n  "prompt": }]');
    expectOneLine(await invoke([command, broken], env), `${broken}:2:13: broken JSON`);
  });

  test('loads without its bad task, which is named; strict refuses it', async () => {
    const mixed = await file('mixed.json', [smallTask('good'), { ...smallTask('bad'), prompt: undefined }]);
    const plan = await invoke(['enqueue', mixed, '--dry-run', '--samples', '4'], env);
    expect(plan).toMatchObject({ code: 0, stdout: '1 good tasks, 4 episodes: claude_code-docker 4\n' });
    expect(plan.stderr).toBe(`${mixed}: task 1 (bad): prompt: is missing\n1 of 2 tasks left out\n`);
    const strict = await invoke(['enqueue', mixed, '--strict'], env);
    expect(strict.code).toBe(2);
    expect(strict.stderr).toContain('prompt: is missing');
  });
});

describe('a Redis', () => {
  const withRedis = async (url: string): Promise<Invoked> => invoke(['status'], { ...env, REDIS_URL: url });

  test('that is not there is told at once', async () => {
    expectOneLine(await withRedis('redis://127.0.0.1:1'), 'cannot reach Redis', 'ECONNREFUSED');
    expectOneLine(await withRedis('unix:///nowhere/r.sock'), '/nowhere/r.sock', 'ENOENT');
    expectOneLine(
      await invoke(['enqueue', tasks], { ...env, REDIS_URL: 'redis://127.0.0.1:1' }),
      'ECONNREFUSED',
    );
    expectOneLine(await invoke(['worker'], { ...env, REDIS_URL: 'redis://127.0.0.1:1' }), 'ECONNREFUSED');
  });

  test('that wants another password is told without the one that was given', async () => {
    await using locked = await startLockedRedis(directory, 'right');
    const wrong = await withRedis(`unix://${locked.socket}?password=wrong-one`);
    expectOneLine(wrong, 'WRONGPASS');
    expect(wrong.stderr).not.toContain('wrong-one');
    expectOneLine(await withRedis(`unix://${locked.socket}`), 'wants a password');
    expect((await withRedis(`unix://${locked.socket}?password=right`)).code).toBe(0);
  });

  test('that is neither named nor installed: how to install one', async () => {
    const { code, stderr } = await invoke(['status'], {
      ROLLPOOL_STATE_DIR: join(directory, 'none'),
      PATH: '/nowhere',
    });
    expect(code).toBe(2);
    expect(stderr).toContain('apt-get install redis-server');
    expect(stderr).not.toMatch(/^ {4}at /m);
  });
});

describe('a policy', () => {
  afterEach(async () => expect(await runs()).toEqual([]));

  const commands = [
    ['run', () => [tasks]],
    ['worker', () => []],
  ] as const;

  test.each(commands)('that cannot be used is refused by %s', async (command, rest) => {
    const withPolicy = async (own: Record<string, string>): Promise<Invoked> =>
      invoke([command, ...rest()], { ...env, ...own });
    expectOneLine(await withPolicy({ ROLLPOOL_POLICY_URL: '' }), 'no policy was named', '--policy-url');
    expectOneLine(await withPolicy({ ROLLPOOL_POLICY_URL: nowhere }), nowhere, 'ECONNREFUSED');
    const refused = await withPolicy({ ROLLPOOL_POLICY_API_KEY: 'other-key' });
    expectOneLine(refused, policy.url, 'refuses the API key');
    expect(refused.stderr).not.toContain('other-key');
    expectOneLine(await withPolicy({ ROLLPOOL_MODEL: 'nope' }), '"nope"', `serves ${policy.model}`);
  });

  test.each(commands)(
    'without ids or logprobs is refused by %s, unless that is allowed',
    async (command, rest) => {
      await using bare = await startScriptedPolicy({
        scripts: smallScripts(),
        faults: [
          { kind: 'no_ids', times: 1_000 },
          { kind: 'no_logprobs', times: 1_000 },
        ],
      });
      const own = { ...env, ...noDocker, ROLLPOOL_POLICY_URL: bare.url };
      expectOneLine(
        await invoke([command, ...rest()], own),
        'no token ids',
        'no logprobs',
        '--allow-untrainable',
      );
      // The next thing that is missing shows that the policy was taken.
      const allowed = await invoke([command, ...rest(), '--allow-untrainable'], own);
      expect(allowed.stderr).toContain('no Docker daemon answers');
    },
  );

  test('of scripts that are missing or broken does not start, nor on a port that is taken', async () => {
    expectOneLine(await invoke(['policy', '--scripts', '/nowhere/s.json'], env), '/nowhere/s.json', 'ENOENT');
    const broken = await file('scripts.json', '{"schema":\n oops}');
    expectOneLine(await invoke(['policy', '--scripts', broken], env), 'line 2, column 2');
    const empty = await file('empty.json', {});
    expectOneLine(await invoke(['policy', '--scripts', empty], env), empty);
    const good = await file('good.json', { schema: 'rollpool.scripts/1', scripts: smallScripts() });
    expectOneLine(
      await invoke(['policy', '--scripts', good, '--port', String(policy.port)], env),
      `127.0.0.1:${policy.port}`,
      'EADDRINUSE',
    );
  });
});

describe('a machine', () => {
  afterEach(async () => expect(await runs()).toEqual([]));

  test('without a Docker daemon', async () => {
    const own = { ...env, ...noDocker };
    for (const args of [
      ['run', tasks, '--sandbox', 'docker'],
      ['worker', '--lanes', 'claude_code-docker'],
    ]) {
      expectOneLine(await invoke(args, own), 'no Docker daemon answers at unix:///nowhere/docker.sock');
    }
    const any = await invoke(['worker'], own);
    expect(any.code).toBe(2);
    expect(any.stderr).toContain('--allow-local');
  });

  test('without a Claude Code CLI', async () => {
    const own = { ...env, ROLLPOOL_CLAUDE_CLI: '/nowhere/claude' };
    for (const args of [
      ['run', tasks, '--sandbox', 'local'],
      ['worker', '--lanes', 'claude_code-local', '--allow-local'],
    ]) {
      expectOneLine(await invoke(args, own), 'the Claude Code CLI at /nowhere/claude is not there');
    }
  });

  test('where --out cannot be written', async () => {
    const inTheWay = await file('in-the-way', '');
    for (const out of [inTheWay, join(inTheWay, 'below')]) {
      expectOneLine(await invoke(['run', tasks, '--sandbox', 'local', '--out', out], env), `--out ${out}`);
    }
    expect(await readdir(directory)).not.toContain('out');
  });

  test('without what a lane needs that was asked for by name', async () => {
    expectOneLine(await invoke(['worker', '--lanes', 'fleet'], env), 'fleet: FLEET_API_KEY is not set');
    expectOneLine(
      await invoke(['worker', '--lanes', 'claude_code-e2b'], env),
      'claude_code-e2b: E2B_API_KEY is not set',
    );
  });
});

describe('a run', () => {
  test('that is not there is told by each command that names one', async () => {
    for (const command of ['status', 'results', 'cancel']) {
      expectOneLine(await invoke([command, 'nope'], env), 'there is no run nope');
    }
    expectOneLine(await invoke(['cancel', '--episode', 'nope'], env), 'no episode nope');
    expectOneLine(await invoke(['cancel', '--group', 'nope'], env), 'no group nope');
    expectOneLine(await invoke(['results'], env), 'there are no runs yet');
  });

  test('with other settings, tasks or sandboxes is refused, naming the field; the same again adds nothing', async () => {
    const again = ['enqueue', tasks, '--run-id', 'mine'];
    expect((await invoke(again, env)).stdout).toBe('run mine: 1 episodes added, 0 were there\n');
    expect((await invoke(again, env)).stdout).toBe('run mine: 0 episodes added, 1 were there\n');
    expectOneLine(await invoke([...again, '--samples', '2'], env), 'mine', 'samples = 1', '2 was given');
    expectOneLine(await invoke([...again, '--sandbox', 'local'], env), 'sandbox = "docker"');
    const other = await file('other.json', [{ ...smallTask('a'), prompt: 'Something else.' }]);
    expectOneLine(await invoke(['enqueue', other, '--run-id', 'mine'], env), 'manifest_hash');
    expectOneLine(
      await invoke(['results', 'mine', '--out', join(tasks, 'below')], env),
      'cannot be written (ENOTDIR)',
    );
  });

  test('that was cancelled takes no tasks, until --retry-failed opens it again', async () => {
    const again = ['enqueue', tasks, '--run-id', 'over'];
    await invoke(again, env);
    expect(await invoke(['cancel', 'over'], env)).toMatchObject({ code: 0, stdout: 'run over cancelled\n' });
    expectOneLine(await invoke(again, env), 'over', '--retry-failed');
    expect(await invoke([...again, '--retry-failed'], env)).toMatchObject({ code: 0 });
  });
});
