/**
 * Runs whole episodes in one worker process, each in a real Docker sandbox with a small agent inside, and prints what the
 * process holds after each part of them, when it has nothing to do. Flat is right; ends with 1 when something grew.
 *
 *   node --expose-gc --import tsx bench/leaks.ts [episodes: 1000] [sandboxes ready ahead: 0] [--json]
 *
 * Needs Docker and `rollpool-sandbox:bookworm`. A thousand take some ten minutes on two cores.
 */
import { randomBytes } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { taskSchema } from '../src/contracts/index.ts';
import { parseScripts, startScriptedPolicy } from '../src/policy/index.ts';
import { createConsumer } from '../src/queue/consumer/index.ts';
import { createQueue } from '../src/queue/index.ts';
import { startBenchRedis } from './bench-redis.ts';
import { countLeaks, growthOf, sampleLeaks, type LeakSample } from './leak-counts.ts';
import { startLeakWorker } from './leak-worker.ts';

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: { json: { type: 'boolean', default: false } },
});
const episodes = Number(positionals[0] ?? 1_000);
const warm = Number(positionals[1] ?? 0);
const concurrency = 4;
/** The first part warms up and is not held against the others. */
const parts = 10;
const perPart = Math.max(concurrency, Math.ceil(episodes / parts));

const pool = `leaks-${randomBytes(4).toString('hex')}`;
const directory = await mkdtemp(join(tmpdir(), 'rp-leaks-'));
await using redis = await startBenchRedis();
const redisUrl = `unix://${redis.path}`;
await using policy = await startScriptedPolicy({
  scripts: parseScripts({
    schema: 'rollpool.scripts/1',
    scripts: [{ match: 'leaks: say something', turns: [{ text: 'something' }] }],
  }),
  seed: 1,
});

const samples: LeakSample[] = [];
const left: string[] = [];
try {
  const worker = await startLeakWorker({
    redisUrl,
    policyUrl: policy.url,
    pool,
    directory: join(directory, 'gw'),
    concurrency,
    warm,
  });
  const queue = await createQueue({ redisUrl });
  const consumer = await createConsumer({ redisUrl });
  for (let part = 0; samples.length === 0 || samples.at(-1)!.episodes < episodes; part += 1) {
    const run_id = `part-${part}`;
    const task = taskSchema.parse({
      task_key: 'leak',
      kind: 'claude_code',
      prompt: 'leaks: say something',
      verify: { commands: ['grep -q something made.txt'] },
    });
    await queue.openRun({
      run_id,
      settings: { samples: perPart, sampling: {}, limits: {}, manifest_hash: null },
    });
    await queue.addBatch({ run_id, batch_id: '0', tasks: [task], laneOf: () => 'claude_code-docker' });
    const deadline = Date.now() + perPart * 20_000;
    while (!(await queue.runStatus(run_id))?.done) {
      if (Date.now() > deadline) throw new Error(`${run_id} takes too long`);
      await new Promise((resolve) => setTimeout(resolve, 100));
    }
    for await (const { summary } of consumer.listResults(run_id)) {
      if (summary.reward === 1) continue;
      throw new Error(`an episode failed: ${JSON.stringify(summary.failure)}`);
    }
    const sample = await sampleLeaks((part + 1) * perPart, pool, directory);
    samples.push(sample);
    if (!values.json) console.log(JSON.stringify(sample));
  }
  await consumer[Symbol.asyncDispose]();
  await queue.close();
  await worker[Symbol.asyncDispose]();
  const { containers, directories } = await countLeaks(pool, directory);
  if (containers > 0) left.push(`${containers} containers`);
  // The worker's own directory, which whoever made it removes.
  if (directories > 1) left.push(`${directories - 1} directories`);
} finally {
  await rm(directory, { recursive: true, force: true });
}
// The first part has opened what is kept open.
const grown = growthOf(samples, warm);
if (values.json) console.log(JSON.stringify({ samples, grown, left }));
else {
  console.log(grown.length === 0 ? 'flat' : `grew: ${grown.join('; ')}`);
  console.log(`left when the worker had ended: ${left.join(', ') || 'nothing'}`);
}
if (grown.length + left.length > 0) process.exitCode = 1;
