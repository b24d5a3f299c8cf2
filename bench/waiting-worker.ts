// The worker process of bench/waiting: in-process agents behind the real gateway and queue. Reports its RSS to its parent.
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { agentDone, createInProcessAgent } from '../src/agents/index.ts';
import { createEpisodeProcessor } from '../src/episode/index.ts';
import { createGateway } from '../src/gateway/index.ts';
import { silentLogger } from '../src/observe/index.ts';
import { startEpisodeWorker, startFeeder } from '../src/queue/index.ts';

const [, , redisUrl = '', policyUrl = '', concurrency = '300'] = process.argv;
const directory = await mkdtemp(join(tmpdir(), 'rp-bench-'));
const gateway = await createGateway({
  policy: { urls: [policyUrl], model: 'bench', logprobsMode: 'processed', systemInPlace: true },
  runtimeDir: directory,
  log: silentLogger,
});
const agent = createInProcessAgent(async ({ session, signal, task }) => {
  const answer = await session.chat(
    // Different in every episode, as real prompts are: nothing is shared between their strings.
    { messages: [{ role: 'user', content: `${task.task_key} ${'some text. '.repeat(5_400)}` }] },
    { agent_id: 'main', role: 'main', signal },
  );
  answer.delivered(true);
  return agentDone();
});
const worker = await startEpisodeWorker({
  redisUrl,
  lanes: ['claude_code-local'],
  concurrency: Number(concurrency),
  process: createEpisodeProcessor({
    sessions: gateway,
    partsFor: () => ({
      provider: null,
      agent,
      grader: { grade: async () => ({ reward: 1, rewards: {}, verify: [], metrics: {} }) },
      cli_binary: null,
    }),
    policy: { model: 'bench', logprobs_mode: 'processed', version_source: 'none' },
    limits: { turn_seconds: 600 },
    sampling: {},
    pool: 'bench',
    log: silentLogger,
  }),
});
const feeder = await startFeeder({ redisUrl });
const timer = setInterval(() => process.send?.({ rss: process.memoryUsage.rss() }), 50);
process.once('SIGTERM', () => {
  clearInterval(timer);
  void (async () => {
    await worker.close();
    await feeder.close();
    await gateway[Symbol.asyncDispose]();
    await rm(directory, { recursive: true, force: true });
    process.disconnect();
  })();
});
