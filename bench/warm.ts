// What a sandbox that was made ahead saves: taken from the warm pool against created, and with its CLI started ahead the time
// from the prompt to the first model request against a fresh CLI's, in turns within one run, so that both meet the same
// machine. Fails when a limit is missed.
//
//   npx tsx bench/warm.ts [rounds]
import { randomBytes } from 'node:crypto';
import { chmod, mkdtemp, rm } from 'node:fs/promises';
import { createServer } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createClaudeCodeAgent, createStartGate } from '../src/agents/index.ts';
import { claudeCodeTaskSchema, resolveLimits, resolveSampling } from '../src/contracts/index.ts';
import { createGateway, type GatewaySession } from '../src/gateway/index.ts';
import { silentLogger } from '../src/observe/index.ts';
import { parseScripts, startScriptedPolicy } from '../src/policy/index.ts';
import {
  createSandboxProvider,
  createSandboxShelf,
  createWarmPool,
  findClaudeCli,
  type Sandbox,
  type SandboxProvider,
} from '../src/sandbox/index.ts';

const rounds = Number(process.argv[2] ?? 10);
const takenLimitMs = 30;
const firstRequestLimitMs = 300;

const limits = resolveLimits({});
const task = claudeCodeTaskSchema.parse({
  task_key: 'bench',
  kind: 'claude_code',
  prompt: 'Say done. [bench]',
  sandbox: { memory_mb: 1024 },
  verify: { commands: ['true'] },
});
const scripts = parseScripts({
  schema: 'rollpool.scripts/1',
  scripts: [{ match: '[bench]', turns: [{ text: 'done' }] }],
});

function median(values: readonly number[]): number {
  return values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)] ?? Number.NaN;
}

const directory = await mkdtemp(join(tmpdir(), 'rp-bench-'));
await chmod(directory, 0o711);
const cli = await findClaudeCli();
const policy = await startScriptedPolicy({ scripts, seed: 1 });
let firstRequestAt = Number.NaN;
// In the policy's place, and only to see when the request comes: what the gateway adds is counted.
const watch = createServer((request, response) => {
  if (request.url?.endsWith('/chat/completions') === true) firstRequestAt = performance.now();
  void (async () => {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk as Buffer);
    const answer = await fetch(policy.url + request.url, {
      method: request.method ?? 'GET',
      headers: { 'content-type': 'application/json' },
      ...(chunks.length > 0 ? { body: Buffer.concat(chunks) } : {}),
    });
    response.writeHead(answer.status, { 'content-type': 'application/json' });
    response.end(await answer.text());
  })();
});
await new Promise<void>((resolve) => watch.listen(0, '127.0.0.1', resolve));
const { port } = watch.address() as { port: number };
const gateway = await createGateway({
  policy: { urls: [`http://127.0.0.1:${port}`], model: policy.model },
  runtimeDir: directory,
  log: silentLogger,
});
const inner = createSandboxProvider('docker', { runtimeDirectory: directory });
const shelf = createSandboxShelf({ capacity: 1, fillAfter: 1, log: silentLogger });
const pool = createWarmPool(inner, { shelf });
const startGate = createStartGate();

/** One episode's boot and agent: milliseconds until the sandbox was there, and from the prompt to the first model request. */
async function episode(provider: SandboxProvider, startAhead: boolean): Promise<[number, number, Sandbox]> {
  const nonce = randomBytes(8).toString('hex');
  const session: GatewaySession = await gateway.open({
    episode_id: nonce,
    attempt: 1,
    nonce,
    sampling: resolveSampling(),
    limits,
  });
  const agent = createClaudeCodeAgent({ startGate, startAhead });
  const askedAt = performance.now();
  const { signal } = new AbortController();
  const sandbox = await provider.create({
    spec: task.sandbox,
    owner: { pool: 'bench', worker: 'bench', run_id: 'bench', episode_id: nonce, attempt: 1, nonce },
    gateway_dir: session.socket_dir,
    cli_binary: cli,
    ttl_seconds: 600,
    ahead: agent.ahead?.(task, limits) ?? null,
    signal,
  });
  const ready = performance.now() - askedAt;
  const promptAt = performance.now();
  const outcome = await agent.run({
    task,
    session,
    sandbox,
    environment: null,
    limits,
    episode_id: nonce,
    attempt: 1,
    signal,
    log: silentLogger,
  });
  if (outcome.ending !== 'agent_done') throw new Error(`an episode ended with ${outcome.detail}`);
  if ((outcome.metrics['warm_cli'] === true) !== (startAhead && sandbox.warm !== undefined))
    throw new Error('the CLI started ahead was not used');
  await session.finish();
  await sandbox[Symbol.asyncDispose]();
  await session[Symbol.asyncDispose]();
  return [ready, firstRequestAt - promptAt, sandbox];
}

const times: Record<'cold' | 'warm', [number[], number[]]> = { cold: [[], []], warm: [[], []] };
let missed = false;
try {
  await pool.probe();
  await episode(inner, false);
  await episode(pool, true);
  await shelf.settled();
  for (let round = 0; round < rounds; round++) {
    for (const [name, provider] of [
      ['cold', inner],
      ['warm', pool],
    ] as const) {
      await shelf.settled();
      const [ready, first, sandbox] = await episode(provider, name === 'warm');
      if ((sandbox.warm !== undefined) !== (name === 'warm')) throw new Error(`${name} was not`);
      times[name][0].push(ready);
      times[name][1].push(first);
    }
  }
  console.log(`median of ${rounds}                      cold      warm    limit`);
  for (const [index, [label, limit]] of [
    ['sandbox ready', takenLimitMs],
    ['prompt to first request', firstRequestLimitMs],
  ].entries() as IterableIterator<[number, [string, number]]>) {
    const [cold, warm] = [median(times.cold[index]!), median(times.warm[index]!)];
    missed ||= warm >= limit;
    console.log(
      `${label.padEnd(26)}${cold.toFixed(0).padStart(8)} ms${warm.toFixed(1).padStart(7)} ms${String(limit).padStart(6)} ms` +
        (warm < limit ? '' : '  missed'),
    );
  }
} finally {
  await shelf[Symbol.asyncDispose]();
  await pool[Symbol.asyncDispose]();
  await gateway[Symbol.asyncDispose]();
  await policy[Symbol.asyncDispose]();
  watch.closeAllConnections();
  watch.close();
  await rm(directory, { recursive: true, force: true });
}
if (missed) process.exitCode = 1;
