// RSS of one worker process with 300 episodes that wait on a slow policy, and when all are answered at once.
//   npm run build && node dist/bench/waiting.js [episodes]
// Requests have 60 KB, answers 2,000 sampled tokens and 15,000 prompt ids (about 320 KB, as vLLM sends them). The
// baseline is the same worker process before its first episode. Limits: 250 MB waiting, 400 MB answered.
import { fork } from 'node:child_process';
import { mkdtemp, rm } from 'node:fs/promises';
import { createServer, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { taskSchema } from '../src/contracts/index.ts';
import { silentLogger } from '../src/observe/index.ts';
import { startEmbeddedRedis } from '../src/queue/embedded-redis/index.ts';
import { createQueue } from '../src/queue/index.ts';

const episodes = Number(process.argv[2] ?? 300);
const promptIds = 15_000;
const sampledIds = 2_000;
const limits = { waiting: 250, answered: 400 };

/** One answer as vLLM words it: an entry for each sampled token, and the prompt's ids. */
function answerBody(): string {
  const ids = Array.from({ length: sampledIds }, (_item, index) => 1000 + index);
  return JSON.stringify({
    id: 'chatcmpl-bench',
    object: 'chat.completion',
    created: 0,
    model: 'bench',
    choices: [
      {
        index: 0,
        message: { role: 'assistant', content: 'word '.repeat(sampledIds), tool_calls: [] },
        logprobs: {
          content: ids.map((id) => ({
            token: `token ${id}`,
            logprob: -id / 3000,
            bytes: [116, 111, 107, 101, 110],
            top_logprobs: [],
          })),
        },
        finish_reason: 'stop',
        stop_reason: null,
        token_ids: ids,
      },
    ],
    usage: { prompt_tokens: promptIds, total_tokens: promptIds + sampledIds, completion_tokens: sampledIds },
    prompt_token_ids: Array.from({ length: promptIds }, (_item, index) => index),
  });
}

const body = answerBody();
const held: ServerResponse[] = [];
let onHeld = (): void => {};
const server = createServer((request, response) => {
  request.resume().on('end', () => {
    if (request.url !== '/v1/chat/completions') {
      response.writeHead(404).end();
      return;
    }
    held.push(response);
    onHeld();
  });
});
await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));

const directory = await mkdtemp(join(tmpdir(), 'rp-bench-'));
const redis = await startEmbeddedRedis({ dataDir: join(directory, 'redis'), log: silentLogger });
const queue = await createQueue({ redisUrl: redis.url });
const worker = fork(new URL('waiting-worker.js', import.meta.url), [
  redis.url,
  `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
  String(episodes),
]);
const rss: number[] = [];
worker.on('message', (message: { rss: number }) => rss.push(message.rss / 2 ** 20));
const settled = async (ms: number): Promise<number> => {
  rss.length = 0;
  await new Promise((resolve) => setTimeout(resolve, ms));
  return Math.max(...rss);
};

try {
  await new Promise((resolve) => worker.once('message', resolve));
  const idle = await settled(3_000);
  await queue.openRun({
    run_id: 'bench',
    settings: { samples: 1, sampling: {}, limits: {}, manifest_hash: null },
  });
  const tasks = Array.from({ length: episodes }, (_item, index) =>
    taskSchema.parse({
      task_key: `t${index}`,
      kind: 'claude_code',
      prompt: `episode ${index}`,
      verify: { commands: ['true'] },
    }),
  );
  await queue.addBatch({ run_id: 'bench', batch_id: '0', tasks, laneOf: () => 'claude_code-local' });
  await new Promise<void>((resolve) => {
    onHeld = () => {
      if (held.length >= episodes) resolve();
    };
    onHeld();
  });
  const waiting = await settled(5_000);
  rss.length = 0;
  const answeredAt = performance.now();
  for (const response of held) {
    response.writeHead(200, {
      'content-type': 'application/json',
      'content-length': Buffer.byteLength(body),
    });
    response.end(body);
  }
  for (;;) {
    const status = await queue.runStatus('bench');
    if (status?.done === true) {
      if (status.episodes.delivered !== episodes || status.scored !== episodes)
        throw new Error('episodes failed');
      break;
    }
    await new Promise((resolve) => setTimeout(resolve, 200));
  }
  const answered = Math.max(...rss);
  const row = (what: string, mb: number, limit?: number): void =>
    console.log(
      `${what.padEnd(34)} ${mb.toFixed(0).padStart(5)} MB   ratio to idle ${(mb / idle).toFixed(2)}` +
        (limit === undefined ? '' : `   ratio to limit (${limit} MB) ${(mb / limit).toFixed(2)}`),
    );
  row('idle worker', idle);
  row(`${episodes} episodes waiting`, waiting, limits.waiting);
  row(`${episodes} answered at once (peak)`, answered, limits.answered);
  console.log(`answered, graded and delivered in ${((performance.now() - answeredAt) / 1000).toFixed(1)} s`);
} finally {
  const ended = new Promise((resolve) => worker.once('exit', resolve));
  worker.kill('SIGTERM');
  await ended;
  await queue.close();
  await redis[Symbol.asyncDispose]();
  server.close();
  server.closeAllConnections();
  await rm(directory, { recursive: true, force: true });
}
