import { chmod, mkdtemp } from 'node:fs/promises';
import { join } from 'node:path';
import { agentDone, createInProcessAgent } from '../../src/agents/in-process.ts';
import { createEpisodeProcessor } from '../../src/episode/index.ts';
import type { Place } from '../../src/episode/place.ts';
import type { LaneParts } from '../../src/episode/ports.ts';
import { createFleetProvider } from '../../src/fleet/index.ts';
import { createGateway } from '../../src/gateway/index.ts';
import { silentLogger } from '../../src/observe/index.ts';
import { createCreationGate } from '../../src/queue/control/index.ts';
import type { EpisodeProcessor, QueueOptions } from '../../src/queue/index.ts';
// Not through the room's index: a Docker client would slow the start of processes that live for a moment.
import { LocalProvider } from '../../src/sandbox/local/local-provider.ts';
import type { ActsInPlace } from './crash-table.ts';
import { rewardIn } from './reward-of.ts';

/** What episodes that act somewhere stand on in these tests. */
export interface PlaceSetting {
  readonly policyUrl: string;
  readonly model: string;
  /** Sandboxes and sockets are made in it; mode 0711. */
  readonly directory: string;
  /** Names the pool in the labels of sandboxes and instances. */
  readonly pool: string;
  readonly fleetUrl: string;
  readonly fleetKey: string;
}

/** Where an episode acts goes into its trace, and decides its reward. */
async function act(place: Place | null, work: () => Promise<unknown>): Promise<string> {
  if (place === null) throw new Error('the episode has no place');
  await work();
  return `I act in ${place.id}`;
}

async function placesOf(
  setting: PlaceSetting,
  acts: ActsInPlace,
  queue: QueueOptions,
): Promise<Pick<LaneParts, 'provider' | 'environments'> & AsyncDisposable> {
  if (acts === 'sandboxed') {
    const provider = new LocalProvider({ directory: setting.directory });
    return { provider, [Symbol.asyncDispose]: () => provider[Symbol.asyncDispose]() };
  }
  const gate = await createCreationGate({ ...queue, provider: 'fleet' });
  const { fleetUrl: baseUrl, fleetKey: apiKey } = setting;
  const environments = createFleetProvider({ baseUrl, apiKey, gate });
  return {
    provider: null,
    environments,
    [Symbol.asyncDispose]: async () => {
      await environments[Symbol.asyncDispose]();
      await gate[Symbol.asyncDispose]();
    },
  };
}

/** The real episode, in a `local` sandbox or in an instance of the local Fleet. */
export async function openPlaces(
  setting: PlaceSetting,
  acts: ActsInPlace,
  queue: QueueOptions,
): Promise<{ process: EpisodeProcessor } & AsyncDisposable> {
  const runtimeDir = await mkdtemp(join(setting.directory, 'gw-'));
  await chmod(runtimeDir, 0o711);
  const gateway = await createGateway({
    policy: { urls: [setting.policyUrl], model: setting.model, logprobsMode: 'processed' },
    runtimeDir,
    log: silentLogger,
  });
  const places = await placesOf(setting, acts, queue);
  const agent = createInProcessAgent(async ({ session, sandbox, environment, signal }) => {
    const content = await act(sandbox ?? environment, async () => {
      await sandbox?.exec('echo made > made', { user: 'agent', timeout_ms: 30_000 });
      await environment?.callTool('list_staff', {}, { timeout_ms: 30_000, signal });
    });
    const answer = await session.chat(
      { messages: [{ role: 'user', content }] },
      { agent_id: 'main', role: 'main', signal },
    );
    answer.delivered(true);
    return agentDone('done');
  });
  const process = createEpisodeProcessor({
    sessions: gateway,
    partsFor: () => ({
      ...places,
      agent,
      grader: {
        grade: async ({ sandbox, environment }) => {
          const reward = rewardIn((sandbox ?? environment)?.id ?? '');
          return { reward, rewards: { place: reward }, verify: [], metrics: {} };
        },
      },
      cli_binary: null,
    }),
    policy: { model: setting.model, logprobs_mode: 'processed', version_source: 'none' },
    limits: {},
    sampling: {},
    pool: setting.pool,
    log: silentLogger,
  });
  return {
    process,
    [Symbol.asyncDispose]: async () => {
      await gateway[Symbol.asyncDispose]();
      await places[Symbol.asyncDispose]();
    },
  };
}
