import { randomBytes } from 'node:crypto';
import { afterAll, describe, expect, test } from 'vitest';
import { reapVolumes } from '../../src/sandbox/docker/reap-volumes.ts';
import { docker, haveDocker, testImage } from './docker-daemon.ts';
import { reapFilter } from './fixture.ts';

const made: string[] = [];

async function volume(labels: Record<string, string>): Promise<string> {
  const name = `rollpool-cli-test-${randomBytes(6).toString('hex')}`;
  await docker.createVolume({ Name: name, Labels: labels });
  made.push(name);
  return name;
}

const there = async (): Promise<string[]> =>
  ((await docker.listVolumes()).Volumes ?? []).map(({ Name }) => Name).filter((name) => made.includes(name));

describe.runIf(haveDocker)('volumes that hold agent CLIs', () => {
  afterAll(async () => {
    for (const name of await there()) await docker.getVolume(name).remove({ force: true });
  });

  test('are kept by a sweep and go with a whole pool, unless they are new or a container has them; others are not touched', async () => {
    const [unused, used, unlabelled] = [
      await volume({ 'io.rollpool.cli': 'sum' }),
      await volume({ 'io.rollpool.cli': 'sum' }),
      await volume({}),
    ];
    const container = await docker.createContainer({
      Image: testImage,
      Cmd: ['true'],
      HostConfig: { Mounts: [{ Type: 'volume', Source: used, Target: '/cli' }] },
    });
    try {
      await reapVolumes(docker, reapFilter());
      await reapVolumes(docker, reapFilter({ all: true, run_id: 'one' }));
      await reapVolumes(docker, reapFilter({ all: true }));
      expect((await there()).toSorted()).toEqual([unused, used, unlabelled].toSorted());
      const later = Date.now() + 3_600_000;
      await reapVolumes(docker, reapFilter(), later);
      expect((await there()).toSorted()).toEqual([unused, used, unlabelled].toSorted());
      expect(await reapVolumes(docker, reapFilter({ all: true }), later)).toContain(unused);
      expect((await there()).toSorted()).toEqual([used, unlabelled].toSorted());
    } finally {
      await container.remove({ force: true });
    }
  });
});
