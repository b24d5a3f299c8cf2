import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, describe, expect, test } from 'vitest';
import { cliVolumeOf } from '../../src/sandbox/docker/cli-volume.ts';
import { findClaudeCli } from '../../src/sandbox/index.ts';
import { docker, haveDocker, testImage } from '../sandbox/docker-daemon.ts';
import { runTunnelEpisode, type TunnelEpisode } from './tunnel-episode.ts';

const done = {
  ending: 'agent_done',
  final_answer: 'It is written.',
  calls: Array.from({ length: 4 }, () => ({ role: 'main', fate: 'delivered' })),
  // Every call once, however often its channel broke.
  sampled: 4,
  answer: '42\n',
  mounts: ['/opt/rollpool'],
};

describe.skipIf(!haveDocker)('the real CLI in a Docker sandbox without a network', () => {
  afterAll(async () => {
    const { name } = await cliVolumeOf(await findClaudeCli());
    await docker.getVolume(name).remove();
  });

  test('works through a tunnel that is cut in the middle of its calls, and every call is sampled once', async () => {
    const episode = await runTunnelEpisode({ reach: 'tunnel', cut: true });
    expect(episode).toMatchObject(done);
    expect(episode.cuts).toBeGreaterThan(2);
    expect(episode.log.filter((line) => line.includes('open again')).length).toBeGreaterThan(2);
  }, 180_000);

  test('works where its worker is a container that has nothing but the daemon’s socket', async () => {
    const checkout = join(import.meta.dirname, '..', '..');
    const { stdout } = await promisify(execFile)(
      'docker',
      [
        ...['run', '--rm', '--network', 'none', '--workdir', checkout],
        ...['--volume', '/var/run/docker.sock:/var/run/docker.sock'],
        ...[
          '--volume',
          `${checkout}:${checkout}:ro`,
          '--volume',
          `${process.execPath}:/usr/local/bin/node:ro`,
        ],
        ...[testImage, 'node', '--import', 'tsx', 'test/e2e/tunnel-episode.ts'],
        JSON.stringify({ reach: 'auto', cut: false }),
      ],
      { timeout: 170_000, maxBuffer: 2 ** 20 },
    );
    const episode = JSON.parse(stdout.trim().split('\n').at(-1) ?? '') as TunnelEpisode;
    expect(episode).toMatchObject(done);
    expect(episode.log.join('\n')).toContain('by a tunnel from now on');
  }, 180_000);
});
