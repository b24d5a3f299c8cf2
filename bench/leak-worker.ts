// The worker of bench/leaks, in this process: real queue, gateway, Docker sandboxes and grading, and a small agent inside.
import { chmod, mkdir } from 'node:fs/promises';
import { agentDone, createInProcessAgent } from '../src/agents/index.ts';
import { createEpisodeProcessor } from '../src/episode/index.ts';
import { createGateway } from '../src/gateway/index.ts';
import { createCommandGrader } from '../src/grading/index.ts';
import { silentLogger } from '../src/observe/index.ts';
import { startEpisodeWorker, startFeeder, startReconciler } from '../src/queue/index.ts';
import { createSandboxProvider, createSandboxShelf, createWarmPool } from '../src/sandbox/index.ts';

/** Asks the model once over the gateway's socket and writes a file, as an agent CLI would. */
const insideAgent = `
import http.client, json, os, socket, sys
class Gateway(http.client.HTTPConnection):
    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(os.environ["GATEWAY"])
prompt = os.environ["PROMPT"]
body = {"model": "m", "max_tokens": 100, "messages": [{"role": "user", "content": prompt}]}
gateway = Gateway("gateway")
headers = {"authorization": "Bearer " + os.environ["BEARER"], "content-type": "application/json", "anthropic-version": "2023-06-01"}
gateway.request("POST", "/v1/messages", json.dumps(body), headers)
answer = gateway.getresponse()
text = answer.read().decode()
if answer.status != 200: sys.exit(text)
open("made.txt", "w").write(text)
`;

export interface LeakWorkerOptions {
  readonly redisUrl: string;
  readonly policyUrl: string;
  readonly pool: string;
  readonly directory: string;
  readonly concurrency: number;
  /** Sandboxes made ahead. */
  readonly warm: number;
}

/** Runs episodes of the queue until it is disposed. */
export async function startLeakWorker(options: LeakWorkerOptions): Promise<AsyncDisposable> {
  const { redisUrl, directory } = options;
  await mkdir(directory, { recursive: true });
  await chmod(directory, 0o711);
  const gateway = await createGateway({
    policy: { urls: [options.policyUrl], model: 'scripted', logprobsMode: 'processed', systemInPlace: true },
    runtimeDir: directory,
    log: silentLogger,
  });
  const docker = createSandboxProvider('docker', { runtimeDirectory: directory });
  await docker.probe();
  const shelf = createSandboxShelf({ capacity: options.warm, log: silentLogger });
  const provider = options.warm === 0 ? docker : createWarmPool(docker, { shelf, log: silentLogger });
  const agent = createInProcessAgent(async ({ sandbox, session, task, signal }) => {
    const ran = await sandbox!.exec(['python3', '-c', insideAgent], {
      user: 'agent',
      env: { GATEWAY: sandbox!.gateway_socket, BEARER: session.bearer, PROMPT: task.prompt },
      timeout_ms: 60_000,
      signal,
    });
    if (ran.exit_code !== 0) throw new Error(`the agent ended with ${ran.exit_code}: ${ran.stderr}`);
    return agentDone();
  });
  const grader = createCommandGrader();
  const process = createEpisodeProcessor({
    sessions: gateway,
    partsFor: () => ({ provider, agent, grader, cli_binary: null }),
    policy: { model: 'scripted', logprobs_mode: 'processed', version_source: 'none' },
    limits: {},
    sampling: {},
    pool: options.pool,
    log: silentLogger,
  });
  const feeder = await startFeeder({ redisUrl });
  const reconciler = await startReconciler({ redisUrl });
  const worker = await startEpisodeWorker({
    redisUrl,
    lanes: ['claude_code-docker'],
    concurrency: options.concurrency,
    process,
  });
  return {
    [Symbol.asyncDispose]: async () => {
      shelf.drain();
      await worker.close({ mode: 'drain' });
      await shelf[Symbol.asyncDispose]();
      await reconciler[Symbol.asyncDispose]();
      await feeder[Symbol.asyncDispose]();
      await provider[Symbol.asyncDispose]();
      await gateway[Symbol.asyncDispose]();
    },
  };
}
