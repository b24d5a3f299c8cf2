import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';
import { readTasks } from '../../producer/index.ts';
import { loadScripts, startScriptedPolicy } from '../../src/policy/index.ts';
import { buildTag } from '../../src/sandbox/docker/images/build-context.ts';
import { docker, haveDocker } from '../sandbox/docker-daemon.ts';
import { openStage, readResults } from './stage.ts';

const folder = fileURLToPath(new URL('../../examples/harbor', import.meta.url));

/** Removes the images of the folder's tasks when the test is over. */
async function imagesOf(): Promise<AsyncDisposable> {
  const tags: string[] = [];
  for await (const task of readTasks(folder, { strict: true })) {
    if (task.kind === 'claude_code' && task.sandbox.build !== undefined)
      tags.push(buildTag(task.sandbox.build));
  }
  return {
    [Symbol.asyncDispose]: async () => {
      for (const tag of tags) {
        await docker
          .getImage(tag)
          .remove()
          .catch((error: unknown) => {
            if ((error as { statusCode?: number }).statusCode !== 404) throw error;
          });
      }
    },
  };
}

test.runIf(haveDocker)(
  'rollpool run takes a folder of Harbor tasks: images are built, tests give rewards, and a task that cannot be built fails alone',
  { timeout: 240_000 },
  async () => {
    await using _images = await imagesOf();
    const scripts = await loadScripts(join(folder, 'policy.json'));
    await using policy = await startScriptedPolicy({ scripts, seed: 1 });
    await using stage = await openStage({ ROLLPOOL_POLICY_URL: policy.url });
    const out = join(stage.directory, 'out');
    const command = ['run', folder, '--out', out, '--processes', '1', '--concurrency', '2'];
    const { code, stderr } = await stage.run(command);
    expect(code, stderr).toBe(1);
    expect(stderr).toMatch(/^run harbor-[0-9a-f]{8}: 4 episodes added, 0 were there\n/);
    const results = new Map((await readResults(out)).map((result) => [result.task_key, result]));
    expect(results.size).toBe(4);
    expect(results.get('rollpool/sum-orders')).toMatchObject({
      status: 'completed',
      reward: 1,
      rewards: { reward: 1 },
      metadata: { harbor: { directory: 'sum-orders', metadata: { difficulty: 'easy' } } },
    });
    expect(results.get('rollpool/slugs')).toMatchObject({
      status: 'completed',
      reward: 0.75,
      rewards: { reward: 0.75, cases_right: 0.75, short: 1 },
    });
    expect(results.get('invert-picture')).toMatchObject({ status: 'completed', reward: 1 });
    const failed = results.get('rollpool/missing-library')!;
    expect(failed).toMatchObject({
      status: 'failed',
      reward: null,
      attempt: 1,
      failure: { class: 'task', code: 'build_failed' },
    });
    expect(failed.failure!.message).toContain('libtotals-2.1.tar.gz: no such file');

    // The same folder is the same run.
    const again = await stage.run(['enqueue', `${folder}/.`]);
    expect(again.stdout).toMatch(/^run harbor-[0-9a-f]{8}: 0 episodes added, 4 were there\n/);
  },
);
