import { describe, expect, it } from 'vitest';
import { createQueue } from '../../src/queue/index.ts';
import { until } from '../support/wait.ts';
import { aTask, lane, openPool, outputOf, plainSettings, summaryOf, tasksOf, type TestPool } from './pool.ts';

async function done(pool: TestPool): Promise<void> {
  await until(async () => (await pool.queue.runStatus('r'))?.done, 'the run is done');
}

describe('a run', () => {
  it('is resumed with the same settings and refused with others, naming the field', async () => {
    await using pool = await openPool();
    const settings = { ...plainSettings, sampling: { temperature: 0.7 }, extra: { model: 'm' } };
    expect(await pool.queue.openRun({ run_id: 'r', settings })).toEqual({ run_id: 'r', created: true });
    expect(await pool.queue.openRun({ run_id: 'r', settings })).toEqual({ run_id: 'r', created: false });
    await expect(
      pool.queue.openRun({ run_id: 'r', settings: { ...settings, sampling: { temperature: 1 } } }),
    ).rejects.toMatchObject({
      code: 'run_settings_differ',
      field: 'sampling.temperature',
      message: expect.stringContaining('sampling.temperature = 0.7'),
    });
    await expect(
      pool.queue.openRun({ run_id: 'r', settings: { ...settings, extra: { model: 'n' } } }),
    ).rejects.toMatchObject({ field: 'extra.model' });
    await expect(
      pool.queue.openRun({ run_id: 'r', settings: { ...settings, manifest_hash: 'h' } }),
    ).rejects.toMatchObject({ field: 'manifest_hash' });
  });

  it('refuses ids that cannot stand in a key, and settings that are none', async () => {
    await using pool = await openPool();
    await expect(pool.queue.openRun({ run_id: 'a:b', settings: plainSettings })).rejects.toThrow('run_id');
    await expect(
      pool.queue.openRun({ run_id: 'r', settings: { ...plainSettings, samples: 0 } }),
    ).rejects.toThrow('samples');
    expect(await pool.queue.listRuns()).toEqual([]);
  });

  it('takes no batch when closed, cancelled or unknown, until it is opened again', async () => {
    await using pool = await openPool();
    const batch = { run_id: 'r', batch_id: '0', tasks: tasksOf(1), laneOf: () => lane };
    await expect(pool.queue.addBatch(batch)).rejects.toMatchObject({ code: 'run_unknown' });
    await pool.queue.openRun({ run_id: 'r', settings: plainSettings });
    await pool.queue.closeRun('r');
    expect(await pool.queue.runStatus('r')).toMatchObject({ state: 'closed' });
    await expect(pool.queue.addBatch(batch)).rejects.toMatchObject({ code: 'run_closed' });
    await expect(pool.queue.openRun({ run_id: 'r', settings: plainSettings })).rejects.toMatchObject({
      code: 'run_closed',
    });
    await pool.queue.openRun({ run_id: 'r', settings: plainSettings, reopen: true });
    expect(await pool.queue.addBatch(batch)).toMatchObject({ added: 2 });
    expect((await pool.queue.listRuns()).map((run) => run.run_id)).toEqual(['r']);
    expect(await pool.queue.runStatus('nothing')).toBeNull();
    expect(await pool.queue.cancelRun('nothing')).toBe(false);
  });
});

describe('a batch', () => {
  it('adds nothing when it comes again, also after its jobs are gone', async () => {
    await using pool = await openPool();
    await pool.feeder();
    const batch = { run_id: 'r', batch_id: '0', tasks: tasksOf(3), laneOf: () => lane };
    await pool.add([]);
    expect(await pool.queue.addBatch(batch)).toMatchObject({ tasks: 3, added: 6, known: 0, groups: 3 });
    expect(await pool.queue.addBatch(batch)).toMatchObject({ added: 0, known: 6, groups: 0, healed: 0 });
    let ran = 0;
    await pool.worker(async (attempt) => {
      ran += 1;
      return outputOf(attempt);
    });
    await done(pool);
    const finished = await pool.redis.keys(
      `${pool.options.prefix!}:episodes-${lane}:e${'[0-9a-f]'.repeat(24)}`,
    );
    await pool.redis.unlink(finished);
    expect(await pool.queue.addBatch(batch)).toMatchObject({ added: 0, known: 6, healed: 0 });
    expect(ran).toBe(6);
    expect(await pool.queue.runStatus('r')).toMatchObject({ episodes: { expected: 6, delivered: 6 } });
  });

  it('refuses another body under the same key, and another number of samples', async () => {
    await using pool = await openPool();
    await pool.add(tasksOf(1));
    const batch = { run_id: 'r', batch_id: '0', laneOf: () => lane };
    await expect(
      pool.queue.addBatch({ ...batch, tasks: [aTask('task-0', { prompt: 'something else' })] }),
    ).rejects.toMatchObject({ code: 'task_differs', message: expect.stringContaining('task-0') });
    await expect(pool.queue.addBatch({ ...batch, tasks: tasksOf(1), samples: 5 })).rejects.toMatchObject({
      field: 'samples',
    });
    await expect(
      pool.queue.addBatch({ ...batch, tasks: tasksOf(1), sampling: { top_p: 0.5 } }),
    ).rejects.toMatchObject({ field: 'sampling.top_p' });
  });

  it('heals what a crash between fence and jobs left out', async () => {
    await using pool = await openPool();
    await pool.add(tasksOf(2));
    const base = `${pool.options.prefix!}:episodes-${lane}:`;
    const [lost] = await pool.redis.keys(`${base}e${'[0-9a-f]'.repeat(24)}`);
    await pool.redis.unlink(lost!);
    await pool.redis.zrem(`${base}prioritized`, lost!.slice(base.length));
    const again = await pool.queue.addBatch({
      run_id: 'r',
      batch_id: '0',
      tasks: tasksOf(2),
      laneOf: () => lane,
    });
    expect(again).toMatchObject({ added: 0, known: 4, healed: 1 });
    expect((await pool.queue.laneCounts()).find((counts) => counts.lane === lane)!.waiting).toBe(4);
  });

  it('names the lanes nobody serves', async () => {
    await using pool = await openPool();
    await pool.add([]);
    await pool.worker(async (attempt) => outputOf(attempt));
    const added = await pool.queue.addBatch({
      run_id: 'r',
      batch_id: '0',
      tasks: tasksOf(2),
      laneOf: (task) => (task.task_key === 'task-0' ? lane : 'claude_code-docker'),
    });
    expect(added.unservedLanes).toEqual(['claude_code-docker']);
  });

  it('stops between chunks when told to, and the same call goes on', async () => {
    await using pool = await openPool();
    await pool.add([]);
    const stop = new AbortController();
    const batch = { run_id: 'r', batch_id: '0', tasks: tasksOf(6), laneOf: () => lane, chunk: 4 };
    await expect(
      pool.queue.addBatch({
        ...batch,
        signal: stop.signal,
        onProgress: () => stop.abort(new Error('enough')),
      }),
    ).rejects.toThrow('enough');
    expect(await pool.queue.addBatch(batch)).toMatchObject({ tasks: 6, added: 8, known: 4 });
  });

  it('takes tasks as they come, and keeps Redis under 2.2 KB an episode', async () => {
    await using pool = await openPool();
    await pool.add([], { samples: 8 });
    const used = async (): Promise<number> =>
      Number(/used_memory:(\d+)/.exec(await pool.redis.info('memory'))![1]);
    async function* many(): AsyncGenerator<ReturnType<typeof aTask>> {
      for (let index = 0; index < 500; index += 1) {
        yield aTask(`a-task-with-a-key-of-usual-length-${index}`, {
          prompt: `Fix the bug number ${index}. `.repeat(40),
          files: { 'src/main.py': `print(${index})\n`.repeat(60) },
        });
      }
    }
    const before = await used();
    await pool.queue.addBatch({
      run_id: 'r',
      batch_id: 'step-000001',
      tasks: many(),
      laneOf: () => lane,
      sampling: { temperature: 0.8, top_p: 1, seed: 7 },
      limits: { max_turns: 30, agent_seconds: 900 },
      deadline_at: Date.now() + 3_600_000,
    });
    const each = ((await used()) - before) / 4_000;
    expect(each).toBeLessThan(2_200);
  });
});

describe('retrying what failed', () => {
  it('makes a new generation of the failed members and keeps the slots of the others', async () => {
    await using pool = await openPool();
    await pool.feeder();
    let broken = true;
    await pool.worker(async (attempt) => {
      if (!broken || attempt.job.sample_index !== 1) return outputOf(attempt, 0.5);
      return {
        summary: {
          ...summaryOf(attempt, null),
          status: 'failed',
          stop_reason: 'task_error',
          failure: { class: 'task', phase: 'setup', code: 'setup', message: 'no', retryable: false },
        },
        payload: null,
      };
    });
    const batch = { run_id: 'r', batch_id: '0', tasks: tasksOf(2), laneOf: () => lane };
    await pool.add(tasksOf(2), { samples: 3 });
    await done(pool);
    expect(await pool.queue.runStatus('r')).toMatchObject({
      by_status: { completed: 4, failed: 2 },
      scored: 4,
    });
    expect(await pool.queue.addBatch(batch)).toMatchObject({ added: 0, known: 6, retried: 0 });

    broken = false;
    expect(await pool.queue.addBatch({ ...batch, retryFailed: true })).toMatchObject({
      added: 2,
      known: 4,
      retried: 2,
    });
    await done(pool);
    const groups = await until(async () => {
      const closed = await pool.closedGroups();
      return closed.length === 4 ? closed : null;
    }, 'four groups');
    const [old, renewed] = [
      groups[0]!,
      groups.find((g) => g.generation === 1 && g.task_key === groups[0]!.task_key)!,
    ];
    expect(renewed.group_id).not.toBe(old.group_id);
    expect(renewed).toMatchObject({ group_size: 3, delivered: 3, scored: 3 });
    expect(renewed.superseded).toEqual([old.results[1]!.summary.episode_id]);
    const ids = (of: typeof old): string[] => of.results.map(({ summary }) => summary.episode_id);
    expect([ids(renewed)[0], ids(renewed)[2]]).toEqual([ids(old)[0], ids(old)[2]]);
    expect(ids(renewed)[1]).not.toBe(ids(old)[1]);
    expect(renewed.results.every(({ summary }) => summary.group_id === renewed.group_id)).toBe(true);
    expect(await pool.queue.runStatus('r')).toMatchObject({
      groups: { expected: 2, closed: 2 },
      episodes: { expected: 6, delivered: 6, queued: 0 },
      by_status: { completed: 6, failed: 0 },
      scored: 6,
      reward_mean: 0.5,
      sampled_tokens: 60,
    });
    expect(await pool.queue.addBatch({ ...batch, retryFailed: true })).toMatchObject({
      added: 0,
      retried: 0,
    });
  });

  it('runs every sample again when the closed group is gone from its stream', async () => {
    await using pool = await openPool();
    await pool.feeder();
    let broken = true;
    await pool.worker(async (attempt) => {
      if (broken && attempt.job.sample_index === 0) throw new Error('down');
      return outputOf(attempt);
    });
    const batch = { run_id: 'r', batch_id: '0', tasks: tasksOf(1), laneOf: () => lane };
    await pool.add(tasksOf(1));
    await done(pool);
    await pool.redis.del(pool.queue.names.groups('r'));
    broken = false;
    expect(await pool.queue.addBatch({ ...batch, retryFailed: true })).toMatchObject({
      added: 2,
      retried: 2,
    });
    await done(pool);
    expect((await pool.closedGroups())[0]).toMatchObject({ generation: 1, delivered: 2, scored: 2 });
    expect(await pool.queue.runStatus('r')).toMatchObject({
      by_status: { completed: 2, failed: 0 },
      scored: 2,
    });
  });
});

describe('an unreachable Redis', () => {
  it('is told in one line within seconds', async () => {
    const started = Date.now();
    await expect(createQueue({ redisUrl: 'redis://user:secret@127.0.0.1:1/0' })).rejects.toMatchObject({
      code: 'redis_unreachable',
      message: expect.stringMatching(
        /^cannot reach Redis at redis:\/\/user:\*\*\*@127\.0\.0\.1:1\/0: .*ECONNREFUSED/,
      ),
    });
    expect(Date.now() - started).toBeLessThan(6_000);
  });
});
