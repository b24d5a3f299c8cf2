import { chmod, mkdtemp } from 'node:fs/promises';
import { join } from 'node:path';
import { agentDone, createInProcessAgent } from '../../src/agents/in-process.ts';
import { createEpisodeProcessor } from '../../src/episode/index.ts';
import { createGateway } from '../../src/gateway/index.ts';
import { silentLogger } from '../../src/observe/index.ts';
import type { EpisodeProcessor } from '../../src/queue/index.ts';
// Not through the room's index: a Docker client would slow the start of processes that live for a moment.
import { LocalProvider } from '../../src/sandbox/local/local-provider.ts';
import { rewardOf } from './reward-of.ts';

/** What a sandboxed episode stands on in these tests. */
export interface SandboxedSetting {
  readonly policyUrl: string;
  readonly model: string;
  /** Sandboxes and sockets are made in it; mode 0711. */
  readonly directory: string;
  /** Names the pool in the labels of sandboxes. */
  readonly pool: string;
}

/** The real episode in a `local` sandbox: its name, which carries the nonce, goes into the trace and into the reward. */
export async function openSandboxed(
  setting: SandboxedSetting,
): Promise<{ process: EpisodeProcessor } & AsyncDisposable> {
  const runtimeDir = await mkdtemp(join(setting.directory, 'gw-'));
  await chmod(runtimeDir, 0o711);
  const gateway = await createGateway({
    policy: { urls: [setting.policyUrl], model: setting.model, logprobsMode: 'processed' },
    runtimeDir,
    log: silentLogger,
  });
  const provider = new LocalProvider({ directory: setting.directory });
  const agent = createInProcessAgent(async ({ session, sandbox, signal }) => {
    const content = `I act in ${sandbox!.id}`;
    await sandbox!.exec('echo made > made', { user: 'agent', timeout_ms: 30_000 });
    const answer = await session.chat(
      { messages: [{ role: 'user', content }] },
      { agent_id: 'main', role: 'main', signal },
    );
    answer.delivered(true);
    return agentDone('done');
  });
  return {
    process: createEpisodeProcessor({
      sessions: gateway,
      partsFor: () => ({
        provider,
        agent,
        grader: {
          grade: async ({ sandbox }) => {
            const reward = rewardOf(sandbox!.id.split('-').at(-1)!);
            return { reward, rewards: { nonce: reward }, verify: [], metrics: {} };
          },
        },
        cli_binary: null,
      }),
      policy: { model: setting.model, logprobs_mode: 'processed', version_source: 'none' },
      limits: {},
      sampling: {},
      pool: setting.pool,
      log: silentLogger,
    }),
    [Symbol.asyncDispose]: async () => {
      await gateway[Symbol.asyncDispose]();
      await provider[Symbol.asyncDispose]();
    },
  };
}
