import { existsSync } from 'node:fs';
import { mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { silentLogger } from '../../../src/observe/index.ts';
import type { InstancePlan } from '../../../src/local-fleet/server/instances/instance-request.ts';
import { Instances } from '../../../src/local-fleet/server/instances/instances.ts';
import { until } from '../../support/wait.ts';
import { notesEnvironment } from './notes-environment.ts';

const plan: InstancePlan = {
  environment: notesEnvironment,
  data_key: 'shopping',
  data_version: 'v0.0.1',
  region: 'us-west-1',
  run_id: null,
  variables: {},
  ttl_seconds: null,
  heartbeat_interval: null,
};

describe('an instance', () => {
  let directory: string;
  let instances: Instances;
  const ended = vi.fn(async () => {});

  beforeEach(async () => {
    directory = await mkdtemp(join(tmpdir(), `rp-instances-${process.pid}-`));
    instances = new Instances({ directory, limit: 5, ended, log: silentLogger });
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'Date'] });
  });

  afterEach(async () => {
    vi.useRealTimers();
    await instances.close();
    await rm(directory, { recursive: true, force: true });
  });

  it('ends when its time to live is over', async () => {
    const instance = await instances.create({ ...plan, ttl_seconds: 900 });
    vi.advanceTimersByTime(899_000);
    expect(instance.status).toBe('running');
    vi.advanceTimersByTime(1_000);
    expect(instance.status).toBe('stopped');
    expect(instance.ended.aborted).toBe(true);
    expect(instances.live()).toEqual([]);
  });

  it('lives on while heartbeats come in time, but not beyond its time to live', async () => {
    const instance = await instances.create({ ...plan, ttl_seconds: 100, heartbeat_interval: 30 });
    for (let beats = 0; beats < 3; beats += 1) {
      vi.advanceTimersByTime(29_000);
      expect(instances.beat(instance)).toBe(Date.now() + 30_000);
    }
    expect(instance.status).toBe('running');
    vi.advanceTimersByTime(13_000);
    expect(instance.status).toBe('stopped');
  });

  it('ends when a heartbeat is missed', async () => {
    const instance = await instances.create({ ...plan, heartbeat_interval: 30 });
    vi.advanceTimersByTime(29_000);
    instances.beat(instance);
    vi.advanceTimersByTime(30_000);
    expect(instance.status).toBe('stopped');
  });

  it('does not end early when its time to live is longer than a timer can wait', async () => {
    const days = 24 * 3_600;
    const instance = await instances.create({ ...plan, ttl_seconds: 40 * days });
    vi.advanceTimersByTime(39 * days * 1_000);
    expect(instance.status).toBe('running');
    vi.advanceTimersByTime(days * 1_000);
    expect(instance.status).toBe('stopped');
  });

  it('leaves no files', async () => {
    const instance = await instances.create(plan);
    expect(existsSync(join(directory, instance.id))).toBe(true);
    await instances.end(instance, 'stopped', 'a test');
    expect(await readdir(directory)).toEqual([]);
    expect(ended).toHaveBeenCalledWith(instance);
  });

  it('that is deleted while it is made leaves no files either', async () => {
    const made = instances.create(plan);
    const [instance] = instances.live();
    const refused = expect(made).rejects.toThrow('was deleted while it was created');
    await instances.close();
    await refused;
    expect(instance?.status).toBe('stopped');
    expect(await readdir(directory)).toEqual([]);
  });

  it('is remembered as failed when it cannot be made', async () => {
    const broken = { ...notesEnvironment, open: () => Promise.reject(new Error('no seed')) };
    await expect(instances.create({ ...plan, environment: broken })).rejects.toThrow('no seed');
    expect(instances.all()).toMatchObject([{ status: 'error' }]);
    await until(async () => (await readdir(directory)).length === 0, 'its files are gone');
  });
});
