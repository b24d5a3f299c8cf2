import { chmod, mkdtemp, rm } from 'node:fs/promises';
import { createServer, request as httpRequest, type IncomingHttpHeaders } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createClaudeCodeAgent, createStartGate, type AgentOutcome } from '../../src/agents/index.ts';
import type { WaitingCli } from '../../src/agents/claude-code/waiting-cli.ts';
import {
  claudeCodeTaskSchema,
  resolveLimits,
  resolveSampling,
  type EffectiveLimits,
} from '../../src/contracts/index.ts';
import { setUp } from '../../src/episode/boot.ts';
import { createGateway, type SessionStats } from '../../src/gateway/index.ts';
import { silentLogger } from '../../src/observe/index.ts';
import { startScriptedPolicy, type Script } from '../../src/policy/index.ts';
import { createSandboxProvider, findClaudeCli, type SandboxProviderName } from '../../src/sandbox/index.ts';

export interface Play {
  readonly prompt: string;
  readonly limits?: Partial<EffectiveLimits>;
  readonly files?: Record<string, string>;
  readonly setup?: readonly string[];
  /** Commands that run before the CLI could be started ahead: what an image brings along. */
  readonly image?: readonly string[];
  readonly lingerMs?: number;
  /** Aborts the agent as soon as the first request is there. */
  readonly cancelled?: boolean;
  /** The CLI that waits is killed before its prompt comes. */
  readonly killed?: boolean;
}

interface RecordedRequest {
  readonly line: string;
  readonly headers: IncomingHttpHeaders;
  readonly body: string;
}

export interface Played {
  readonly outcome: AgentOutcome | { readonly rejected: unknown };
  readonly stats: SessionStats;
  /** What came to the gateway, byte for byte but for ids that are drawn at random. */
  readonly requests: readonly RecordedRequest[];
  readonly files: readonly string[];
}

/** Headers that name one run, or say how long something took in it. */
const ownHeaders = [
  'authorization',
  'x-claude-code-session-id',
  'x-claude-code-prompt-id',
  'x-claude-code-prev-tool-durations',
];

/** Stands between a sandbox and its session, and keeps what passes. */
async function recorder(socketDir: string, onRequest: () => void) {
  const directory = await mkdtemp(join(tmpdir(), `rp-rec-${process.pid}-`));
  await chmod(directory, 0o711);
  const seen: RecordedRequest[] = [];
  const server = createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('end', () => {
      const body = Buffer.concat(chunks);
      const { headers, method, url } = request;
      seen.push({ line: `${method} ${url}`, headers, body: body.toString('latin1') });
      const forwarded = httpRequest(
        { socketPath: join(socketDir, 'gw.sock'), method, path: url, headers, agent: false },
        (answer) => {
          response.writeHead(answer.statusCode ?? 500, answer.headers);
          answer.pipe(response);
        },
      );
      forwarded.on('error', () => response.destroy());
      response.on('close', () => forwarded.destroy());
      forwarded.end(body);
      onRequest();
    });
  });
  await new Promise<void>((resolve) => server.listen(join(directory, 'gw.sock'), resolve));
  await chmod(join(directory, 'gw.sock'), 0o666);
  return {
    directory,
    seen,
    [Symbol.asyncDispose]: async () => {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
      await rm(directory, { recursive: true, force: true });
    },
  };
}

/** Replaces what is drawn at random for one run, which is never of another length. */
function normalise(request: RecordedRequest): RecordedRequest {
  const session = String(request.headers['x-claude-code-session-id']);
  const body = request.body
    .replaceAll(session, 'SESSION')
    .replace(/(\\"device_id\\":\\")[0-9a-f]{64}/, '$1DEVICE');
  const headers = Object.fromEntries(
    Object.entries(request.headers).filter(([name]) => !ownHeaders.includes(name)),
  );
  return { line: request.line, headers, body };
}

export interface AheadStage extends AsyncDisposable {
  /** Plays it with a CLI that was started before files and set-up, or with a fresh one. */
  play(how: 'fresh' | 'ahead', play: Play): Promise<Played>;
}

export async function openAheadStage(options: {
  readonly scripts: readonly Script[];
  readonly provider: SandboxProviderName;
  readonly through?: (policyUrl: string) => string;
}): Promise<AheadStage> {
  const cli = await findClaudeCli();
  const provider = createSandboxProvider(options.provider);
  const startGate = createStartGate();
  const { signal } = new AbortController();

  const play = async (how: 'fresh' | 'ahead', input: Play): Promise<Played> => {
    // The same name for both, one after the other: the ids of tool calls and the paths of local sandboxes come of it.
    const nonce = `same${process.pid}`;
    const runtimeDir = await mkdtemp(join(tmpdir(), `rp-${process.pid}-`));
    await chmod(runtimeDir, 0o711);
    const limits = resolveLimits(input.limits ?? {});
    const task = claudeCodeTaskSchema.parse({
      task_key: 'same',
      kind: 'claude_code',
      prompt: input.prompt,
      files: input.files ?? {},
      setup: input.setup ?? [],
      verify: { commands: ['true'] },
    });
    try {
      // One for each, so that both are given the very same tokens.
      await using policy = await startScriptedPolicy({ scripts: options.scripts, seed: 1 });
      const url = options.through?.(policy.url) ?? policy.url;
      await using gateway = await createGateway({
        policy: { urls: [url], model: policy.model },
        runtimeDir,
        log: silentLogger,
      });
      const controller = new AbortController();
      await using session = await gateway.open({
        episode_id: 'same',
        attempt: 1,
        nonce,
        sampling: resolveSampling(),
        limits,
      });
      await using between = await recorder(session.socket_dir ?? '', () => {
        if (input.cancelled === true) controller.abort(new Error('cancelled'));
      });
      await using sandbox = await provider.create({
        spec: task.sandbox,
        owner: {
          pool: 'test',
          worker: `w-${process.pid}`,
          run_id: 'r',
          episode_id: 'same',
          attempt: 1,
          nonce,
        },
        gateway_dir: between.directory,
        cli_binary: cli,
        ttl_seconds: 600,
        signal,
      });
      for (const command of input.image ?? []) {
        const made = await sandbox.exec(command, { user: 'agent', timeout_ms: 60_000 });
        if (made.exit_code !== 0) throw new Error(made.stderr);
      }
      const agent = createClaudeCodeAgent({
        startGate,
        startAhead: true,
        ...(input.lingerMs === undefined ? {} : { lingerMs: input.lingerMs }),
      });
      if (how === 'ahead') {
        const started = await agent.ahead!(task, limits)!.start(sandbox, signal);
        Object.assign(sandbox, { warm: { ahead: started } });
        if (input.killed === true) {
          await (started as WaitingCli).process.kill();
          if (started.alive()) throw new Error('a CLI that was killed passes for alive');
        }
      }
      await setUp(sandbox, task, limits, signal);
      const outcome = await agent
        .run({
          task,
          session,
          sandbox,
          environment: null,
          limits,
          episode_id: 'same',
          attempt: 1,
          signal: controller.signal,
          log: silentLogger,
        })
        .catch((error: unknown) => ({ rejected: error }));
      const left = await sandbox.exec(
        'find . -type f ! -path "*/.git/*" | sort; cat answer.txt 2>/dev/null; true',
        {
          timeout_ms: 30_000,
        },
      );
      await session.finish();
      return {
        outcome,
        stats: session.stats(),
        requests: between.seen.map(normalise),
        files: left.stdout.split('\n'),
      };
    } finally {
      await rm(runtimeDir, { recursive: true, force: true });
    }
  };
  return {
    play,
    [Symbol.asyncDispose]: async () => provider[Symbol.asyncDispose](),
  };
}
