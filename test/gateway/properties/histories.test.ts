import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { resolveLimits, resolveSampling } from '../../../src/contracts/index.ts';
import { startScriptedPolicy, parseScripts } from '../../../src/policy/index.ts';
import { until } from '../../support/wait.ts';
import { MovingState } from '../support/moving-state.ts';
import { openGateway } from '../support/open-gateway.ts';
import { episodePlan, script, wireFaults, type EpisodePlan } from './episode-plans.ts';
import { EpisodePlayer } from './play-episode.ts';
import { UnrulyWire, type WireFault } from './unruly-wire.ts';
import { contradictions } from './verdict.ts';

/** More: `ROLLPOOL_PROPERTY_RUNS=200`. Others: `ROLLPOOL_PROPERTY_SEED=` any number. */
const numRuns = Number(process.env['ROLLPOOL_PROPERTY_RUNS'] ?? 1);
const seed = Number(process.env['ROLLPOOL_PROPERTY_SEED'] ?? 1);

const scripts = parseScripts({ schema: 'rollpool.scripts/1', scripts: [{ match: 'Task', turns: script }] });

interface Mode {
  readonly name: string;
  readonly engine: 'vllm' | 'sglang';
  readonly streaming: boolean;
  /** Prompts go on from recorded ids. */
  readonly byIds: boolean;
}

type Template = 'plain' | 'hostile';

const modes: readonly Mode[] = [
  { name: 'vLLM', engine: 'vllm', streaming: false, byIds: false },
  { name: 'vLLM from ids', engine: 'vllm', streaming: false, byIds: true },
  { name: 'vLLM, streamed', engine: 'vllm', streaming: true, byIds: false },
  { name: 'vLLM from ids, streamed', engine: 'vllm', streaming: true, byIds: true },
  { name: 'SGLang', engine: 'sglang', streaming: false, byIds: false },
  { name: 'SGLang from ids', engine: 'sglang', streaming: false, byIds: true },
];

let nonces = 0;

/** Episodes beside one another, before one policy. */
const scene = fc.record({
  plans: fc.array(episodePlan, { minLength: 4, maxLength: 6, size: 'max' }),
  faults: wireFaults,
  /** Tells which fault a call has. */
  shift: fc.nat({ max: 1_000 }),
  /** Of the gateway's questions (how long is this prompt, how is it rendered) every so many-th is refused; 0: none. */
  questionsRefused: fc.constantFrom(0, 0, 2, 5),
});

type Scene = typeof scene extends fc.Arbitrary<infer T> ? T : never;

async function play(
  { plans, faults, shift, questionsRefused }: Scene,
  mode: Mode,
  template: Template,
): Promise<string[]> {
  const { engine, streaming, byIds } = mode;
  await using policy = await startScriptedPolicy({
    scripts,
    engine,
    template,
    seed: 7,
    model: 'policy',
    splitRate: 0.2,
    keepSamples: 20_000,
  });
  const state = new MovingState();
  const choose = (own: number, attempt: number): WireFault =>
    faults[(own + shift + attempt * 7) % faults.length]!;
  await using wire = await UnrulyWire.start(policy, state, choose, questionsRefused);
  await using opened = await openGateway(wire.url, {
    policy: { engine, streaming, logprobsMode: 'processed', callFormat: byIds ? 'hermes' : null },
    gateway: { policyState: state },
  });
  const episode = async (plan: EpisodePlan, number: number): Promise<string[]> => {
    const episodeId = `property-${number}`;
    const sampling = resolveSampling({ seed: number });
    const session = await opened.gateway.open({
      episode_id: episodeId,
      attempt: 1,
      nonce: `${episodeId} ${++nonces}`,
      sampling,
      limits: resolveLimits({ turn_seconds: 20, hold_seconds: 20 }),
      unix_socket: false,
    });
    const played = await new EpisodePlayer(session, plan).play();
    const records = await session.finish();
    return contradictions(records, {
      ...played,
      seed: number,
      episodeId,
      template,
      exchanges: wire.exchanges,
      log: policy.samples(),
    }).map((fault) => `episode ${number}: ${fault}`);
  };
  const found = (await Promise.all(plans.map(episode))).flat();
  await until(() => wire.open === 0, 'nothing of any episode is on its way', 5_000);
  return found;
}

describe(`for any histories and faults (seed ${seed}),`, () => {
  describe.each(['plain', 'hostile'] as const)('under a %s template,', (template) => {
    test.each(modes)(
      '$name: every token is as it was sampled, once, and nothing else is trainable',
      async (mode) => {
        await fc.assert(
          fc.asyncProperty(scene, async (each) => {
            expect(await play(each, mode, template)).toEqual([]);
          }),
          { numRuns, seed, endOnFailure: true },
        );
      },
      3_600_000,
    );
  });
});
