// One Claude Code attempt with the real CLI in a Docker sandbox that has no network: scripted policy, gateway and provider
// in this process. Prints what came of it as one line of JSON. Run by itself it is the whole of a worker that matters here:
//
//   node --import tsx test/e2e/tunnel-episode.ts '{"reach":"auto","cut":false}'
import { randomBytes } from 'node:crypto';
import { chmod, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createClaudeCodeAgent, createStartGate } from '../../src/agents/index.ts';
import { claudeCodeTaskSchema, resolveLimits, resolveSampling } from '../../src/contracts/index.ts';
import { createGateway } from '../../src/gateway/index.ts';
import { silentLogger, type Logger } from '../../src/observe/index.ts';
import { parseScripts, startScriptedPolicy } from '../../src/policy/index.ts';
import { DockerProvider, findClaudeCli, type Sandbox } from '../../src/sandbox/index.ts';

export interface TunnelEpisodeInput {
  readonly reach: 'auto' | 'tunnel';
  /** Whether the channel is cut again and again while the agent runs. */
  readonly cut: boolean;
}

export interface TunnelEpisode {
  readonly ending: string;
  readonly final_answer: string | null;
  readonly calls: readonly { readonly role: string; readonly fate: string }[];
  /** How often the policy sampled. */
  readonly sampled: number;
  readonly answer: string;
  readonly cuts: number;
  readonly mounts: readonly string[];
  readonly log: readonly string[];
}

const bash = (command: string): unknown => ({ name: 'Bash', arguments: { command, description: 'Run it' } });
const scripts = parseScripts({
  schema: 'rollpool.scripts/1',
  scripts: [
    {
      match: '[by tunnel]',
      turns: [
        { text: 'I write it.', tool_calls: [bash('echo 42 > answer.txt')] },
        { tool_calls: [bash('cat answer.txt; head -c 100000 /dev/zero | tr "\\0" x')] },
        { tool_calls: [bash('wc -c answer.txt')] },
        { text: 'It is written.' },
      ],
    },
  ],
});

// Kills the command that holds the channel, as a line that drops does.
const cutter = `
for file in /proc/[0-9]*/cmdline; do
  if grep -qz '^attach$' "$file" 2>/dev/null; then dir=\${file%/cmdline}; kill -9 "\${dir##*/}" 2>/dev/null && echo cut; fi
done`;

async function cutWhile(sandbox: Sandbox, running: Promise<unknown>): Promise<number> {
  let cuts = 0;
  let isRunning = true;
  void running.finally(() => (isRunning = false)).catch(() => undefined);
  while (isRunning) {
    const found = await sandbox.exec(cutter, { user: 'root', timeout_ms: 30_000 });
    if (found.stdout.includes('cut')) cuts++;
    await new Promise((resolve) => setTimeout(resolve, 300));
  }
  return cuts;
}

export async function runTunnelEpisode(input: TunnelEpisodeInput): Promise<TunnelEpisode> {
  const lines: string[] = [];
  const note = (_fields: unknown, text?: string): void => void lines.push(text ?? '');
  const log = { ...silentLogger, info: note, warn: note } as Logger;
  const runtimeDir = await mkdtemp(join(tmpdir(), `rp-${process.pid}-`));
  await chmod(runtimeDir, 0o711);
  try {
    await using policy = await startScriptedPolicy({ scripts, seed: 1, latencyMs: input.cut ? 700 : 0 });
    await using gateway = await createGateway({
      policy: { urls: [policy.url], model: policy.model },
      runtimeDir,
      log: silentLogger,
    });
    const id = `e${process.pid}x${randomBytes(4).toString('hex')}`;
    const limits = resolveLimits({});
    await using session = await gateway.open({
      episode_id: id,
      attempt: 1,
      nonce: id,
      sampling: resolveSampling(),
      limits,
    });
    await using provider = new DockerProvider({ reach: input.reach, log });
    const { signal } = new AbortController();
    await using sandbox = await provider.create({
      spec: { cpus: 1, memory_mb: 1_024, network: 'none', workdir: '/workspace' },
      owner: { pool: `test-${id}`, worker: 'worker', run_id: 'run', episode_id: id, attempt: 1, nonce: id },
      gateway_dir: session.socket_dir ?? '',
      cli_binary: await findClaudeCli(),
      ttl_seconds: 600,
      signal,
    });
    const running = createClaudeCodeAgent({ startGate: createStartGate() }).run({
      limits,
      log: silentLogger,
      environment: null,
      task: claudeCodeTaskSchema.parse({
        task_key: id,
        kind: 'claude_code',
        prompt: 'Write the answer. [by tunnel]',
        verify: { commands: ['true'] },
      }),
      session,
      sandbox,
      episode_id: id,
      attempt: 1,
      signal,
    });
    const cuts = input.cut ? await cutWhile(sandbox, running) : 0;
    const outcome = await running;
    const mounts = await sandbox.exec('grep -oE " (/gw|/opt/rollpool[^ ]*) " /proc/mounts', {
      timeout_ms: 30_000,
    });
    const written = await sandbox.read('answer.txt', 100);
    return {
      ending: outcome.ending,
      final_answer: outcome.final_answer,
      calls: (await session.finish()).map(({ role, fate }) => ({ role, fate })),
      sampled: policy.samples().length,
      answer: Buffer.from(written ?? []).toString(),
      cuts,
      mounts: mounts.stdout
        .split('\n')
        .map((line) => line.trim())
        .filter(Boolean),
      log: lines,
    };
  } finally {
    await rm(runtimeDir, { recursive: true, force: true });
  }
}

if (process.argv[1]?.endsWith('tunnel-episode.ts') === true) {
  const input = JSON.parse(process.argv[2] ?? '{}') as TunnelEpisodeInput;
  console.log(JSON.stringify(await runTunnelEpisode(input)));
}
