import type { Redis } from 'ioredis';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { silentLogger } from '../../../src/observe/index.ts';
import type { PolicyState } from '../../../src/gateway/policy-state.ts';
import {
  connectFailFast,
  queueNames,
  type AbortCause,
  type LiveEpisode,
  type QueueNames,
} from '../../../src/queue/index.ts';
import { setFlag } from '../../../src/queue/lua/set-flag.ts';
import {
  createControl,
  startControlListener,
  type Control,
  type ControlListener,
} from '../../../src/queue/control/index.ts';
import { startOwnRedis } from '../../support/own-redis.ts';
import { freshPrefix, testRedisUrl } from '../../support/redis.ts';
import { until } from '../../support/wait.ts';

// A poll that never comes within a test: what arrives came as a message.
const never = 3_600_000;

let redis: Redis & AsyncDisposable;
let names: QueueNames;
let control: Control;
let prefix: string;

beforeEach(async () => {
  prefix = freshPrefix();
  names = queueNames(prefix);
  redis = await connectFailFast({ redisUrl: testRedisUrl(), log: silentLogger });
  const flag = (key: string, reason = 'cancelled'): Promise<boolean> => setFlag(redis, key, 'ended', reason);
  control = createControl({
    redis,
    names,
    cancelRun: (id, reason) => flag(names.run(id), reason),
    cancelGroup: (id, reason) => flag(names.group(id), reason),
    cancelEpisode: (id, reason) => flag(names.episode(id), reason),
    pauseRun: (id) => setFlag(redis, names.run(id), 'paused_at', 1),
    resumeRun: (id) => setFlag(redis, names.run(id), 'paused_at', null),
  });
  await redis.hset(names.run('run'), 'schema', 1);
  await redis.hset(names.group('group'), 'run', 'run');
  for (const id of ['one', 'two']) await redis.hset(names.episode(id), 'group', 'group', 'state', 'running');
});
afterEach(() => redis[Symbol.asyncDispose]());

const listen = (pollMs = never): Promise<ControlListener> =>
  startControlListener({ redisUrl: testRedisUrl(), prefix, pollMs });

/** A worker that runs two episodes of one group and notes what it is told to end. */
function twoEpisodes(): { told: string[]; worker: Parameters<ControlListener['attach']>[0] } {
  const told: string[] = [];
  const note =
    (what: string) =>
    (id: string, cause: AbortCause): number => {
      told.push(`${what} ${id} ${cause.kind}`);
      return 1;
    };
  const live = ['one', 'two'].map((episode_id): LiveEpisode => ({
    episode_id,
    group_id: 'group',
    run_id: 'run',
    lane: 'claude_code-local',
    attempt: 1,
    nonce: episode_id,
    started_at: 0,
  }));
  return {
    told,
    worker: {
      live: () => live,
      abortRun: note('run'),
      abortGroup: note('group'),
      abortEpisode: note('episode'),
    },
  };
}

async function cutSubscribers(): Promise<void> {
  await redis.client('KILL', 'TYPE', 'PUBSUB');
}

describe('ending', () => {
  it.each([
    ['run', 'run', () => control.cancelRun('run')],
    ['group', 'group', () => control.cancelGroup('group')],
    ['episode', 'two', () => control.cancelEpisode('two')],
  ])('a %s reaches every worker at once', async (target, id, cancel) => {
    await using first = await listen();
    await using second = await listen();
    const workers = [twoEpisodes(), twoEpisodes()];
    first.attach(workers[0]!.worker);
    second.attach(workers[1]!.worker);
    expect(await cancel()).toBe(true);
    for (const { told } of workers) {
      await until(() => told.includes(`${target} ${id} cancelled`), `${target} ${id} was cancelled`);
    }
  });

  it('what is not there, or has its result, says so and tells nobody', async () => {
    await using listener = await listen();
    const { told, worker } = twoEpisodes();
    listener.attach(worker);
    expect(await control.cancelRun('other')).toBe(false);
    await redis.hset(names.episode('one'), 'state', 'published');
    expect(await control.cancelEpisode('one')).toBe(false);
    expect(await control.cancelEpisode('two', 'stale')).toBe(true);
    await until(() => told.length > 0, 'the second one was told');
    expect(told).toEqual(['episode two stale']);
  });

  it('is found without a message', async () => {
    await using listener = await listen(20);
    const { told, worker } = twoEpisodes();
    listener.attach(worker);
    await setFlag(redis, names.group('group'), 'ended', 'cancelled');
    await until(() => told.includes('group group cancelled'), 'the flag was found');
  });

  it('said before a worker was there to hear it is heard by the worker', async () => {
    await using listener = await listen();
    await control.cancelEpisode('one');
    const { told, worker } = twoEpisodes();
    listener.attach(worker);
    await until(() => told.includes('episode one cancelled'), 'the worker was told');
  });

  it('concerns a worker no more once it is detached', async () => {
    await using listener = await listen();
    const [gone, here] = [twoEpisodes(), twoEpisodes()];
    {
      using _attached = listener.attach(gone.worker);
    }
    listener.attach(here.worker);
    await control.cancelRun('run');
    await until(() => here.told.length > 0, 'the attached worker was told');
    expect(gone.told).toEqual([]);
  });
});

describe('the policy', () => {
  it('has no version and is not paused before anybody said anything', async () => {
    await using listener = await listen();
    const state: PolicyState = listener.policy;
    expect([state.version('any'), state.source, state.paused(), state.unpausedChanges()]).toEqual([
      null,
      'none',
      false,
      0,
    ]);
    await state.resumed(AbortSignal.timeout(1_000));
  });

  it('paused, given a version and resumed holds calls meanwhile, and no call is uncertain', async () => {
    await using listener = await listen();
    const { policy } = listener;
    await control.setPolicy({ paused: true });
    await until(() => policy.paused(), 'the policy is paused');
    let resumed = false;
    const waiting = policy.resumed(AbortSignal.timeout(30_000)).then(() => (resumed = true));
    await control.setPolicy({ version: 7 });
    await until(() => policy.version('any') === 7, 'the version is known');
    expect([resumed, policy.source]).toEqual([false, 'pushed']);
    await control.setPolicy({ paused: false });
    await waiting;
    expect([policy.paused(), policy.unpausedChanges()]).toEqual([false, 0]);
  });

  it('given a version while calls run counts that, and the same version again is no change', async () => {
    await control.setPolicy({ version: 1 });
    await control.setPolicy({ version: 1 });
    expect(await control.setPolicy({ version: 2 })).toMatchObject({ version: 2, unpaused_changes: 2 });
  });

  it('may have another version on one replica, until all get one', async () => {
    await using listener = await listen();
    const { policy } = listener;
    await control.setPolicy({ version: 3 });
    await control.setPolicy({ version: 4, replica: 'http://gpu-1' });
    await until(() => policy.version('http://gpu-1') === 4, 'the version of the replica is known');
    expect(policy.version('http://gpu-0')).toBe(3);
    await control.setPolicy({ version: 5 });
    await until(() => policy.version('http://gpu-1') === 5, 'the version of all is known');
    expect(policy.version('http://gpu-0')).toBe(5);
  });

  it('is known to a process that starts later', async () => {
    await control.setPolicy({ version: 9, paused: true });
    await using listener = await listen();
    expect([listener.policy.version('any'), listener.policy.paused()]).toEqual([9, true]);
    expect(await control.policy()).toMatchObject({ version: 9, paused: true, revision: 1 });
  });

  it('is found without a message, also after Redis lost its last second', async () => {
    await control.setPolicy({ version: 1 });
    const saved = await redis.get(names.policy);
    await control.setPolicy({ version: 2 });
    await using listener = await listen(20);
    expect(listener.policy.version('any')).toBe(2);
    await redis.set(names.policy, saved!);
    await until(() => listener.policy.version('any') === 1, 'the version went back');
  });

  it('is heard again after the connection was cut', async () => {
    await using listener = await listen();
    await cutSubscribers();
    await control.setPolicy({ version: 11 });
    await until(() => listener.policy.version('any') === 11, 'the version was heard');
    await control.setPolicy({ version: 12 });
    await until(() => listener.policy.version('any') === 12, 'the next version was heard');
  });

  it('that stays paused keeps a call waiting until its own deadline', async () => {
    await control.setPolicy({ paused: true });
    await using listener = await listen();
    const abort = new AbortController();
    const waiting = listener.policy.resumed(abort.signal);
    abort.abort(new Error('the hold is over'));
    await expect(waiting).rejects.toThrow('the hold is over');
    await expect(listener.policy.resumed(abort.signal)).rejects.toThrow('the hold is over');
  });

  it.each([[{ version: -1 }], [{ version: 1.5 }], [{ replica: 'http://gpu-0' }]])(
    'refuses %o and changes nothing',
    async (change) => {
      await expect(control.setPolicy(change)).rejects.toThrow(/version|replica/);
      expect(await redis.exists(names.policy)).toBe(0);
    },
  );
});

it('a message of a newer kind is passed over', async () => {
  await using listener = await listen();
  await redis.publish(names.controlChannel, '{"type":"dance"}');
  await redis.publish(names.controlChannel, 'no json');
  await control.setPolicy({ version: 1 });
  await until(() => listener.policy.version('any') === 1, 'the version was heard');
});

it('a listener without a Redis fails within seconds', async () => {
  await expect(startControlListener({ redisUrl: 'redis://127.0.0.1:1' })).rejects.toMatchObject({
    code: 'redis_unreachable',
  });
});

it('a listener closes while Redis is away, however long its last poll waits', async () => {
  await using own = await startOwnRedis();
  const listener = await startControlListener({ redisUrl: own.url, prefix, pollMs: 5 });
  const { worker } = twoEpisodes();
  using _attached = listener.attach(worker);
  await own.kill();
  // A poll asks every 5 ms, and none is answered any more.
  await new Promise((resolve) => setTimeout(resolve, 50));
  await listener.close();
});
