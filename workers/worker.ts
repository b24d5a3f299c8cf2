import { randomInt } from 'node:crypto';
import { createAgent, createStartGate } from '../src/agents/index.ts';
import type { Settings } from '../src/config/index.ts';
import type { CallFormat, Lane } from '../src/contracts/index.ts';
import { createEpisodeProcessor } from '../src/episode/index.ts';
import {
  createFlightRecorder,
  createGateway,
  traceDirectory,
  type FlightRecorder,
  type PolicyProbe,
} from '../src/gateway/index.ts';
import { createCommandGrader, createVerifierGrader } from '../src/grading/index.ts';
import type { Logger } from '../src/observe/index.ts';
import {
  newWorkerId,
  startEpisodeWorker,
  startFeeder,
  startReconciler,
  type CloseOptions,
  type EpisodeWorker,
  type QueueOptions,
} from '../src/queue/index.ts';
import { createCreationGate, createPlaceLimit, startControlListener } from '../src/queue/control/index.ts';
import { concurrencyOf, partsOf, probeLanes } from './lanes.ts';
import { openedParts } from './opened-parts.ts';
import { admission, downLine, probePolicies } from './probe-policies.ts';
import { startReaper } from './reaper.ts';
import { makeRuntimeDirectory } from './runtime-directory.ts';
import { warmLanes } from './warm-lanes.ts';

export interface WorkerOptions {
  readonly settings: Settings;
  readonly queue: QueueOptions;
  readonly log: Logger;
  /** Runs a policy that returns no ids or logprobs: rewards only. Default: false. */
  readonly allowUntrainable?: boolean;
  /** The only run whose episodes it runs. Default: all. */
  readonly onlyRun?: string;
  /** Agent CLIs that may be starting at once in this process. Default: the number of cores. */
  readonly cliStarts?: number;
  readonly signal?: AbortSignal;
}

export interface RunningWorker extends AsyncDisposable {
  readonly id: string;
  readonly lanes: Readonly<Partial<Record<Lane, number>>>;
  /** See EpisodeWorker.close: hand-off by default; a second call closes at once. */
  close(options?: CloseOptions): Promise<void>;
}

/**
 * Starts everything a worker process is: the gateway, the lanes it can serve, a feeder, a reconciler, a reaper and its
 * ear on the control channel. Rejects with one clear error for what is missing, and leaves nothing running then.
 */
export async function startWorker(options: WorkerOptions): Promise<RunningWorker> {
  const { settings, log } = options;
  const id = newWorkerId();
  const opened = openedParts();
  const { keep } = opened;
  const closeParts = (): Promise<void> => Promise.resolve(opened[Symbol.asyncDispose]());

  try {
    const control = keep(await startControlListener(options.queue));
    if (control.policy.paused()) {
      log.warn('the policy is paused: this worker begins when it goes on');
      const held = within(settings.limits.hold_seconds, options.signal);
      // Paused for too long, it is asked all the same: that says best what is wrong.
      await control.policy.resumed(held).catch(() => options.signal?.throwIfAborted());
    }
    const policy = await probePolicies(options);
    const down = downLine(policy);
    if (down !== null) log.warn({ replicas: policy.down }, down);
    const gate =
      settings.fleet.apiKey === null
        ? undefined
        : keep(await createCreationGate({ ...options.queue, provider: 'fleet' }));
    const e2b = servesE2b(settings)
      ? {
          gate: keep(await createCreationGate({ ...options.queue, provider: 'e2b' })),
          limit: keep(
            await createPlaceLimit({
              ...options.queue,
              provider: 'e2b',
              places: settings.e2b.sandboxes,
              createsPerSecond: settings.e2b.createsPerSecond,
            }),
          ),
        }
      : undefined;
    const runtime = keep(await makeRuntimeDirectory(id, settings.redis.prefix));
    const probed = await probeLanes({
      settings,
      log,
      signal: options.signal,
      runtimeDirectory: runtime.path,
      ...(gate === undefined ? {} : { gate }),
      ...(e2b === undefined ? {} : { e2b }),
    });
    const served = keep(warmLanes(probed, settings, log));
    const recorder = recorderOf(settings, id, log);
    if (recorder !== null) keep(recorder);
    const gateway = keep(
      await createGateway({
        policy: {
          urls: settings.policy.urls,
          apiKey: settings.policy.apiKey ?? undefined,
          model: policy.model,
          logprobsMode: policy.logprobs_mode,
          systemInPlace: policy.system_in_place,
          engine: policy.engine,
          streaming: settings.policy.streaming,
          callFormat: callFormatOf(settings, policy, log),
          replicas: {
            callsAtOnce: settings.policy.replicaCalls ?? undefined,
            first: randomInt(settings.policy.urls.length),
            down: policy.down,
            admit: admission(policy, options),
          },
        },
        policyState: control.policy,
        runtimeDir: runtime.path,
        recorder: recorder ?? undefined,
        log,
      }),
    );
    const agentParts = {
      startGate: createStartGate(options.cliStarts),
      startAhead: settings.sandbox.warm > 0 && settings.sandbox.warmCli,
      toolMode: toolModeOf(settings, policy),
    };
    const process = createEpisodeProcessor({
      sessions: gateway,
      partsFor: partsOf(served, {
        claude_code: { agent: createAgent('claude_code', agentParts), grader: createCommandGrader() },
        fleet: {
          agent: createAgent('fleet', agentParts),
          grader: createVerifierGrader({ partialReward: settings.fleet.partialReward }),
        },
      }),
      policy: () => ({
        model: policy.model,
        logprobs_mode: policy.logprobs_mode,
        version_source: control.policy.source,
      }),
      limits: settings.limits,
      sampling: settings.sampling,
      pool: settings.redis.prefix,
      keep_sandboxes: settings.sandbox.keep,
      log,
    });
    const lanes = Object.fromEntries(
      [...served.keys()].map((lane) => [lane, concurrencyOf(lane, settings)]),
    ) as Partial<Record<Lane, number>>;

    keep(await startFeeder(options.queue));
    keep(await startReconciler(options.queue));
    keep(await startReaper({ queue: options.queue, pool: settings.redis.prefix, served, log }));
    const worker: EpisodeWorker = keep(
      await startEpisodeWorker({
        ...options.queue,
        lanes: [...served.keys()],
        concurrency: lanes,
        process,
        workerId: id,
        maxAttempts: settings.worker.maxAttempts,
        ...(options.onlyRun === undefined ? {} : { onlyRun: options.onlyRun }),
        publishSeconds: settings.limits.publish_seconds,
      }),
    );
    control.attach(worker);
    log.info(
      { worker: id, lanes, policy: settings.policy.urls, model: policy.model, engine: policy.engine },
      'worker ready',
    );

    return {
      id,
      lanes,
      close: async (how) => {
        served.drain();
        await worker.close(how);
        await closeParts();
      },
      [Symbol.asyncDispose]: closeParts,
    };
  } catch (error) {
    await closeParts();
    throw error;
  }
}

/** Aborts with `signal`, or after so many seconds. */
function within(seconds: number, signal: AbortSignal | undefined): AbortSignal {
  const limit = AbortSignal.timeout(Math.min(seconds * 1000, 2 ** 31 - 1));
  return signal === undefined ? limit : AbortSignal.any([signal, limit]);
}

/** Whether this worker may make sandboxes with E2B. */
function servesE2b({ e2b, worker }: Settings): boolean {
  return e2b.apiKey !== null && (worker.lanes?.includes('claude_code-e2b') ?? true);
}

/** The flight recorder; null where it is switched off. */
function recorderOf(settings: Settings, worker: string, log: Logger): FlightRecorder | null {
  if (settings.trace === null) return null;
  return createFlightRecorder({
    directory: traceDirectory(settings.stateDir),
    ...settings.trace,
    secrets: [settings.policy.apiKey, settings.fleet.apiKey, settings.e2b.apiKey].filter(
      (secret) => secret !== null,
    ),
    worker,
    log,
  });
}

/** How the policy calls tools: as it was told, else by the engine's parser where the engine takes tools. */
function toolModeOf(settings: Settings, policy: PolicyProbe): 'native' | 'text' {
  const { toolMode } = settings.fleet;
  if (toolMode !== 'auto') return toolMode;
  return policy.tools ? 'native' : 'text';
}

/** How the policy writes tool calls: as it was told, else as the probe found it; null where every prompt is to be text. */
function callFormatOf(settings: Settings, policy: PolicyProbe, log: Logger): CallFormat | null {
  const { toolCallParser } = settings.policy;
  if (toolCallParser === 'off') return null;
  if (!policy.continues) {
    log.info('the policy does not go on from token ids: where its template rewrites history, sequences fork');
    return null;
  }
  if (toolCallParser !== 'auto') return toolCallParser;
  if (policy.call_format === null) {
    log.info(
      'the policy writes tool calls in a way that is not known here: where its template rewrites history, sequences fork. ROLLPOOL_TOOL_CALL_PARSER names one',
    );
  }
  return policy.call_format;
}
