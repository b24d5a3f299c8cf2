import { existsSync } from 'node:fs';
import { mkdir, mkdtemp, readFile, readdir, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { shippedEnvironments, startLocalFleet, type LocalFleet } from '../../src/local-fleet/index.ts';
import { startScriptedPolicy, type ScriptedPolicy } from '../../src/policy/index.ts';
import { createQueue } from '../../src/queue/index.ts';
import { messageTask } from '../e2e/fleet/stage.ts';
import { messageScript } from '../e2e/fleet/cli-stage.ts';
import { smallScripts, smallTask } from '../e2e/small-tasks.ts';
import { freshPrefix, testRedisUrl } from '../support/redis.ts';
import { expectOneLine, invoke } from './invoke.ts';

const real = fileURLToPath(new URL('../../../shared/data/fleet_booking_tasks.json', import.meta.url));
const present = existsSync(real);
if (!present) console.log('skipped: the exported booking tasks are not beside the project (../shared/data)');

const key = 'the-right-key';
const nowhere = 'http://127.0.0.1:1';

describe('Fleet tasks', () => {
  let directory: string;
  let policy: ScriptedPolicy;
  let fleet: LocalFleet;
  let pool: string;
  let env: Record<string, string>;
  let service: Record<string, string>;
  let fleetTasks: string;
  let mixedTasks: string;

  const file = async (name: string, content: unknown): Promise<string> => {
    const path = join(directory, name);
    await writeFile(path, typeof content === 'string' ? content : JSON.stringify(content));
    return path;
  };

  beforeAll(async () => {
    directory = await mkdtemp(join(tmpdir(), `rollpool-fleet-bad-use-${process.pid}-`));
    policy = await startScriptedPolicy({ scripts: smallScripts([messageScript]) });
    fleet = await startLocalFleet({ environments: await shippedEnvironments(), apiKey: key });
    pool = freshPrefix();
    env = {
      REDIS_URL: testRedisUrl(),
      ROLLPOOL_PREFIX: pool,
      ROLLPOOL_STATE_DIR: join(directory, 'state'),
      ROLLPOOL_POLICY_URL: policy.url,
      DOCKER_HOST: 'unix:///nowhere/docker.sock',
      ROLLPOOL_CLAUDE_CLI: '/nowhere/claude',
    };
    service = { FLEET_BASE_URL: fleet.url, FLEET_API_KEY: key };
    fleetTasks = await file('fleet.json', [messageTask()]);
    mixedTasks = await file('mixed.json', [messageTask(), smallTask('small')]);
  });

  afterAll(async () => {
    await fleet[Symbol.asyncDispose]();
    await policy[Symbol.asyncDispose]();
    await rm(directory, { recursive: true });
  });

  // Nothing that is refused leaves a run, an instance or a directory behind.
  afterEach(async () => {
    await using queue = await createQueue({ redisUrl: testRedisUrl(), prefix: pool });
    expect(await queue.listRuns()).toEqual([]);
    expect(fleet.instances()).toEqual([]);
    const left = (await readdir(tmpdir())).filter((name) => name.startsWith(`rp-gw-${process.pid}-`));
    expect(left).toEqual([]);
  });

  test.skipIf(!present)(
    'that were exported load, and need a service that has their environment',
    async () => {
      const plan = await invoke(['enqueue', real, '--dry-run'], env);
      expect(plan).toEqual({ code: 0, stdout: '100 good tasks, 100 episodes: fleet 100\n', stderr: '' });
      const [task] = JSON.parse(await readFile(real, 'utf8')) as { env_id: string }[];
      const refused = await invoke(['run', real], env);
      expectOneLine(refused, `no environment ${task!.env_id} in the local Fleet`, 'FLEET_API_KEY');
    },
  );

  test('whose folder of environments is broken are refused by run, naming what is wrong', async () => {
    const run = async (folder: string): Promise<ReturnType<typeof invoke>> =>
      invoke(['run', fleetTasks, '--environments', folder], env);
    expectOneLine(await run('/nowhere/environments'), '/nowhere/environments');
    const broken = join(directory, 'broken');
    await mkdir(broken);
    await file('broken/environment.json', '{"env_key": "bike-workshop",\n oops}');
    expectOneLine(await run(broken), 'environment.json');
    await file('broken/environment.json', '{"env_key": 7}');
    expectOneLine(await run(broken), 'environment.json: schema:', 'rollpool.environment/1');
    expectOneLine(await run(fleetTasks), fleetTasks);
  });

  test('are told where --environments and a named service stand against each other', async () => {
    const both = await invoke(['run', fleetTasks, '--environments', directory], { ...env, ...service });
    expectOneLine(both, '--environments', 'FLEET_API_KEY');
    expect(both.stderr).not.toContain(key);
    expectOneLine(await invoke(['run', fleetTasks], { ...env, FLEET_BASE_URL: fleet.url }), 'FLEET_BASE_URL');
    expectOneLine(
      await invoke(['run', fleetTasks], { ...env, FLEET_API_KEY_FILE: '/nowhere/key' }),
      'FLEET_API_KEY_FILE',
      '/nowhere/key',
    );
  });

  test.each([
    ['run', () => [fleetTasks]],
    ['worker', () => ['--lanes', 'fleet']],
  ] as const)('whose service refuses the key or does not answer are refused by %s', async (command, rest) => {
    const wrong = await invoke([command, ...rest()], { ...env, ...service, FLEET_API_KEY: 'another-key' });
    expectOneLine(wrong, 'FLEET_API_KEY');
    expect(wrong.stderr).not.toContain('another-key');
    const away = { ...env, FLEET_API_KEY: 'some-key', FLEET_BASE_URL: nowhere };
    expectOneLine(await invoke([command, ...rest()], away), nowhere, 'FLEET_BASE_URL');
    // Something that answers and is no Fleet.
    const other = { ...env, FLEET_API_KEY: 'some-key', FLEET_BASE_URL: policy.url };
    const said = await invoke([command, ...rest()], other);
    expectOneLine(said, policy.url);
    expect(said.stderr).not.toContain('some-key');
  });

  test('beside Claude Code tasks need what both need', async () => {
    expectOneLine(await invoke(['run', mixedTasks], env), '/nowhere/claude');
    const noDocker = { ...env, ROLLPOOL_CLAUDE_CLI: process.execPath };
    expectOneLine(await invoke(['run', mixedTasks], noDocker), 'no Docker daemon answers');
    const local = ['run', mixedTasks, '--sandbox', 'local'];
    expectOneLine(await invoke(local, { ...env, ...service }), '/nowhere/claude');
  });
});
