// A 3-turn Claude Code episode, one at a time, against the bare CLI with the same command, gateway and policy.
//   npm run build && node dist/bench/episode.js [pairs]
// local: the episode (sandbox, set-up, agent, grading, teardown) against the bare CLI; limit 1.2x.
// docker: the episode against `docker run` of the same command; limit 0.5 s more. Needs the docker command.
// Pairs run in turn, so that a machine that drifts drifts for both; medians are printed.
import { randomBytes } from 'node:crypto';
import { mkdir, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { execa } from 'execa';
import { createClaudeCodeAgent, createStartGate } from '../src/agents/index.ts';
import { claudeCodeCommand } from '../src/agents/claude-code/command.ts';
import { defaultLimits, resolveSampling, taskSchema } from '../src/contracts/index.ts';
import { createEpisodeProcessor } from '../src/episode/index.ts';
import { createGateway, type Gateway } from '../src/gateway/index.ts';
import { createCommandGrader } from '../src/grading/index.ts';
import { silentLogger } from '../src/observe/index.ts';
import { parseScripts, startScriptedPolicy } from '../src/policy/index.ts';
import { createSandboxProvider, findClaudeCli, type SandboxProvider } from '../src/sandbox/index.ts';

const pairs = Number(process.argv[2] ?? 5);
const image = 'rollpool-sandbox:bookworm';
const limits = defaultLimits;

const task = taskSchema.parse({
  task_key: 'three-turns',
  kind: 'claude_code',
  prompt: 'bench: write one file and read it',
  verify: { commands: ['test -f bench.txt'] },
});
const scripts = parseScripts({
  schema: 'rollpool.scripts/1',
  scripts: [
    {
      match: 'bench: write one file',
      turns: [
        {
          tool_calls: [{ name: 'Bash', arguments: { command: 'echo hi > bench.txt', description: 'write' } }],
        },
        { tool_calls: [{ name: 'Bash', arguments: { command: 'cat bench.txt', description: 'read' } }] },
        { text: 'Done.' },
      ],
    },
  ],
});

function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.floor(sorted.length / 2)] ?? NaN;
}

async function seconds(work: () => Promise<void>): Promise<number> {
  const startedAt = performance.now();
  await work();
  return (performance.now() - startedAt) / 1000;
}

let attempts = 0;

async function bare(gateway: Gateway, cli: string, directory: string, docker: boolean): Promise<void> {
  await using session = await gateway.open({
    episode_id: `bare${(attempts += 1)}`,
    attempt: 1,
    nonce: randomBytes(8).toString('hex'),
    sampling: resolveSampling(),
    limits,
  });
  const home = join(directory, `home${attempts}`);
  await mkdir(join(home, 'work'), { recursive: true });
  const command = claudeCodeCommand({
    cliPath: docker ? '/opt/claude' : cli,
    prompt: task.prompt,
    limits,
    episodeId: 'bare',
    attempt: 1,
    gatewaySocket: docker ? '/gw/gw.sock' : join(session.socket_dir ?? '', 'gw.sock'),
    bearer: session.bearer,
    home: docker ? '/tmp' : home,
  });
  const [program = '', ...rest] = command.argv;
  if (docker) {
    const env = Object.entries(command.env).flatMap(([name, value]) => ['-e', `${name}=${value}`]);
    const mounts = ['-v', `${session.socket_dir}:/gw:ro`, '-v', `${cli}:/opt/claude:ro`];
    const options = [
      '--rm',
      '-i',
      '--network',
      'none',
      '--user',
      '1000',
      '--workdir',
      '/tmp',
      '--pids-limit',
      '512',
    ];
    await execa('docker', ['run', ...options, ...mounts, ...env, image, program, ...rest], {
      input: command.stdin,
    });
  } else {
    await execa(program, rest, {
      input: command.stdin,
      cwd: join(home, 'work'),
      env: { PATH: process.env['PATH'], IS_SANDBOX: '1', ...command.env },
      extendEnv: false,
    });
  }
  const { calls } = session.stats();
  if (calls !== 3) throw new Error(`the bare CLI made ${calls} calls instead of 3`);
}

function episode(gateway: Gateway, provider: SandboxProvider, cli: string): () => Promise<void> {
  const agent = createClaudeCodeAgent({ startGate: createStartGate() });
  const grader = createCommandGrader();
  const process = createEpisodeProcessor({
    sessions: gateway,
    partsFor: () => ({ provider, agent, grader, cli_binary: cli }),
    policy: { model: 'scripted', logprobs_mode: 'processed', version_source: 'none' },
    limits: {},
    sampling: {},
    pool: 'bench',
    log: silentLogger,
  });
  return async () => {
    attempts += 1;
    const { summary } = await process({
      job: {
        schema: 1,
        run_id: 'bench',
        batch_id: '0',
        episode_id: `e${attempts}`,
        group_id: 'g',
        group_size: 1,
        sample_index: 0,
        task_key: task.task_key,
        task_ref: 'none',
        sampling: {},
        limits: {},
        priority: 0,
      },
      task,
      attempt: 1,
      nonce: randomBytes(8).toString('hex'),
      worker: 'bench',
      lane: 'claude_code-local',
      queued_at: Date.now(),
      run: { sampling: {}, limits: {} },
      signal: new AbortController().signal,
    });
    if (summary.reward !== 1) throw new Error(`the episode failed: ${JSON.stringify(summary.failure)}`);
  };
}

const directory = await mkdtemp(join(tmpdir(), 'rp-bench-'));
await using policy = await startScriptedPolicy({ scripts, seed: 1 });
await using gateway = await createGateway({
  policy: { urls: [policy.url], model: policy.model, logprobsMode: 'processed', systemInPlace: true },
  runtimeDir: join(directory, 'gw'),
  log: silentLogger,
});
try {
  const cli = await findClaudeCli();
  for (const name of ['local', 'docker'] as const) {
    await using provider = createSandboxProvider(name, { log: silentLogger, defaultImage: image });
    try {
      await provider.probe();
    } catch (error) {
      console.log(`${name}: skipped, ${error instanceof Error ? error.message : String(error)}`);
      continue;
    }
    const run = episode(gateway, provider, cli);
    await run();
    const ours: number[] = [];
    const floor: number[] = [];
    for (let pair = 0; pair < pairs; pair += 1) {
      floor.push(await seconds(() => bare(gateway, cli, directory, name === 'docker')));
      ours.push(await seconds(run));
    }
    const [a, b] = [median(ours), median(floor)];
    const against = name === 'docker' ? 'docker run' : 'bare CLI';
    console.log(
      `${name.padEnd(6)}  episode ${a.toFixed(2)} s, ${against} ${b.toFixed(2)} s, ratio ${(a / b).toFixed(2)}, ` +
        `${(a - b).toFixed(2)} s more (${name === 'docker' ? 'limit 0.50 s more' : 'limit 1.20x'}), ${pairs} pairs`,
    );
  }
} finally {
  await rm(directory, { recursive: true, force: true });
}
