import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { FleetTask } from '../../src/contracts/index.ts';
import { createFleetProvider, type EnvironmentProvider } from '../../src/fleet/index.ts';
import { shippedEnvironments, startLocalFleet, type LocalFleet } from '../../src/local-fleet/index.ts';
import { recordingGate } from '../fleet/creation-record.ts';
import { taskOf, type Call } from '../local-fleet/shipped/workshop.ts';
import * as api from '../local-fleet/verifier/api-probe.ts';
import { exportedTasks, noExportedTasks, scratchDatabase } from '../local-fleet/verifier/exported-tasks.ts';
import { openScene, pickled } from '../local-fleet/verifier/scene.ts';
import { noFleetPython, startFleetPython, type FleetPython } from './fleet-python.ts';

if (noFleetPython !== null) console.log(`skipped: ${noFleetPython}`);

const key = 'sk_test';

/** What is done in an environment before it is graded. */
interface Episode {
  readonly task: FleetTask;
  readonly calls?: readonly Call[];
  readonly answer?: string;
}

/** What an execution came to, as a client reads it. */
interface Told {
  readonly success: boolean;
  readonly result: unknown;
  /** The class of the exception. */
  readonly error: string | null;
  readonly stdout: string;
}

const ready: readonly Call[] = [
  ['set_job_status', { job_id: 1012, status: 'ready' }],
  [
    'send_message',
    { customer_id: 113, job_id: 1012, body: 'Your Fjell is ready until 18:00. It comes to 148.90 euros.' },
  ],
];

const withVerifier = (verifier_code: string): FleetTask => ({
  ...taskOf('bw_ready_for_collection'),
  verifier_code,
});

/** Holds the whole difference against a list, as many exported verifiers do. */
const differs = withVerifier(`
def validate_task(env: Environment, final_answer: str | None = None) -> int:
    env.instance.load()
    seed, current = env.db("seed"), env.db("current")
    known = {row["id"] for row in seed.table("messages").select("id").all()}
    expected = [{"table": "jobs", "pk": 1012, "type": "modify", "resulting_fields": [("status", "ready")], "no_other_changes": True}]
    for message in current.table("messages").all():
        if message["id"] not in known:
            fields = [(name, ... if name == "body" else value) for name, value in message.items() if name != "sent_on"]
            expected.append({"table": "messages", "pk": message["id"], "type": "insert", "fields": fields})
    try:
        seed.diff(current, IgnoreConfig(table_fields={"messages": {"sent_on"}})).expect_only_v2(expected)
    except AssertionError as error:
        print(f"[X] {error}")
        return TASK_FAILED_SCORE
    return TASK_SUCCESSFUL_SCORE if len(expected) == 2 else TASK_FAILED_SCORE
`);

describe.skipIf(noFleetPython !== null)("the vendor's SDK against local Fleet", () => {
  let fleet: LocalFleet;
  let sdk: FleetPython;
  let provider: EnvironmentProvider;

  beforeAll(async () => {
    fleet = await startLocalFleet({ environments: await shippedEnvironments(), apiKey: key });
    sdk = startFleetPython(fleet.url, key);
    provider = createFleetProvider({ baseUrl: fleet.url, apiKey: key, gate: recordingGate(0).gate });
  });

  afterAll(async () => {
    await provider[Symbol.asyncDispose]();
    await sdk[Symbol.asyncDispose]();
    await fleet[Symbol.asyncDispose]();
  });

  test('makes an instance, reads, changes, compares, resets, lists and closes it', async () => {
    const names = { env_key: 'bike-workshop:1.0.0', data_key: 'harbour:v1.0.0', run_id: 'tour' };
    expect(await sdk.ask('tour', names)).toEqual({
      version: '0.2.133',
      environments: ['bike-workshop'],
      environment: 'v1.0.0',
      team: true,
      env: ['bike-workshop', 'v1.0.0', 'harbour', 'running'],
      resources: [
        ['current', 'sqlite'],
        ['seed', 'sqlite'],
      ],
      tables: expect.arrayContaining(['jobs', 'messages', 'shifts']) as unknown,
      rows: [['id', 'name'], [[1, expect.any(String)]]],
      builder: [{ name: expect.any(String) as unknown }, expect.any(Number)],
      refused: [false, false],
      heartbeat: true,
      listed: true,
      found: 'running',
      changed: [['staff_id', 'work_date'], [[3, '2026-03-16']]],
      reset: [true, 0],
      closed: 'stopped',
      left: 0,
      wrong_key: 'FleetAuthenticationError',
      wrong_env: 'FleetEnvironmentNotFoundError',
    });
    expect(fleet.instances()).toEqual([]);
  });

  /** In an instance that the SDK made: tools at the MCP address it tells, graded by its verify calls. */
  const bySdk = async ({
    task,
    calls = [],
    answer,
  }: Episode): Promise<Told & { score?: number; raised?: string }> => {
    const { env_key, data_key, env_variables } = task;
    const made = (await sdk.ask('make', { env_key, data_key, env_variables, run_id: 'sdk' })) as {
      id: string;
      mcp: string;
    };
    const client = new Client({ name: 'test', version: '1' });
    const requestInit = { headers: { authorization: `Bearer ${key}` } };
    await client.connect(new StreamableHTTPClientTransport(new URL(made.mcp), { requestInit }));
    for (const [name, args] of calls) {
      expect((await client.callTool({ name, arguments: args })).isError ?? false).toBe(false);
    }
    await client.close();
    const graded = (await sdk.ask('grade', {
      id: made.id,
      key: task.task_key,
      code: task.verifier_code,
      final_answer: answer ?? null,
    })) as Told & { score?: number; raised?: string };
    expect(await sdk.ask('close', { id: made.id })).toBe('stopped');
    return graded;
  };

  const byUs = async ({ task, calls = [], answer }: Episode): Promise<Told> => {
    const { signal } = new AbortController();
    await using environment = await provider.create({
      task,
      owner: { pool: '{p}', worker: 'w', run_id: 'r', episode_id: 'e', attempt: 1, nonce: 'n' },
      boot_seconds: 60,
      wait_seconds: 60,
      ttl_seconds: 900,
      signal,
    });
    if (calls.length > 0) await environment.tools({ timeout_ms: 60_000, signal });
    for (const [name, args] of calls) {
      const result = await environment.callTool(name, args, { timeout_ms: 60_000, signal });
      expect(result, result.text).toMatchObject({ is_error: false });
    }
    const told = await environment.verify({
      final_answer: answer ?? null,
      conversation: [],
      timeout_seconds: 60,
      signal,
    });
    const { success, result, stdout } = told;
    return { success, result, stdout, error: told.error?.type ?? null };
  };

  test.each<[string, number, Episode]>([
    [
      'a right answer',
      1,
      { task: taskOf('bw_tyre_price'), answer: 'We have 7 in stock at 34.90 euros each.' },
    ],
    ['a wrong answer', 0, { task: taskOf('bw_tyre_price'), answer: '12 in stock, 36.90 euros' }],
    ['no answer', 0, { task: taskOf('bw_tyre_price') }],
    ['a right final state', 1, { task: taskOf('bw_ready_for_collection'), calls: ready }],
    ['half of it', 0, { task: taskOf('bw_ready_for_collection'), calls: ready.slice(0, 1) }],
    ['the right difference', 1, { task: differs, calls: ready }],
    [
      'a difference too many',
      0,
      { task: differs, calls: [...ready, ['order_part', { part_id: 208, quantity: 12 }]] },
    ],
    [
      'a part of a score',
      0.25,
      { task: withVerifier('def verify(env, final_answer=None):\n    return {"score": 0.25}') },
    ],
  ])('grades %s as our own client does: %d', async (_name, score, episode) => {
    const theirs = await bySdk(episode);
    const ours = await byUs(episode);
    expect(ours).toMatchObject({ success: true, error: null });
    expect(theirs).toEqual({ ...ours, score });
    const { result } = ours;
    expect(typeof result === 'object' && result !== null ? (result as { score: number }).score : result).toBe(
      score,
    );
  });

  test('is told of a verifier that fails as our own client is', async () => {
    const episode = {
      task: withVerifier(
        'def verify(env, final_answer=None):\n    print("looking")\n    return env.db("current").missing',
      ),
    };
    const ours = await byUs(episode);
    expect(ours).toEqual({ success: false, result: null, error: 'AttributeError', stdout: 'looking\n' });
    expect(await bySdk(episode)).toEqual({ ...ours, raised: 'RuntimeError' });
  });

  test('reads from the instance what a verifier reads beside it', async () => {
    const { env_key, data_key, env_variables, task_key, verifier_code } = differs;
    const { id } = (await sdk.ask('make', { env_key, data_key, env_variables, run_id: 'here' })) as {
      id: string;
    };
    const call = { id, key: task_key, code: verifier_code, final_answer: null };
    const scores = async (): Promise<unknown[]> => [
      ((await sdk.ask('grade_here', call)) as { score: number }).score,
      ((await sdk.ask('grade', call)) as { score: number }).score,
    ];
    expect(await scores()).toEqual([0, 0]);
    await sdk.ask('exec', { id, sql: "UPDATE jobs SET status = 'ready' WHERE id = 1012" });
    await sdk.ask('exec', {
      id,
      sql: `INSERT INTO messages (customer_id, job_id, channel, body, sent_on, sent_by)
            VALUES (113, 1012, 'email', 'Ready', '2026-03-16', 5)`,
    });
    expect(await scores()).toEqual([1, 1]);
    await sdk.ask('close', { id });
    expect(fleet.instances()).toEqual([]);
  });

  test('gives and refuses a verifier what ours does, in the same words', async () => {
    const source = api.probe(api.expressions);
    using scene = openScene(api.seed, api.changes);
    const { seedPath: seed, currentPath: current } = scene;
    const theirs = (await sdk.ask('local', { source, seed, current, final_answer: null })) as Told;
    const ours = await scene.run(source);
    expect(theirs.error).toBeNull();
    expect(ours.result).toEqual(theirs.result);
  });

  test.skipIf(noExportedTasks !== null)(
    "comes to the same over exported tasks' verifiers, run by itself and by us",
    async () => {
      const final_answer = 'It is $1,200 at Hotel Zürich.';
      const args = pickled([], { final_answer });
      // A quarter of them, for the time it takes.
      const some = exportedTasks().filter((_task, index) => index % 4 === 0);
      for (const { key: task, verifier_func: source } of some) {
        const { seed, changes } = scratchDatabase(source);
        using scene = openScene(seed, changes);
        const { seedPath, currentPath } = scene;
        const [ours, theirs] = await Promise.all([
          scene.run(source, { args }),
          sdk.ask('local', { source, seed: seedPath, current: currentPath, final_answer }),
        ]);
        const { success, result, error } = theirs as Told;
        expect({ task, success: ours.success, result: ours.result, error: ours.error?.type ?? null }).toEqual(
          {
            task,
            success,
            result,
            error,
          },
        );
      }
    },
  );
});
