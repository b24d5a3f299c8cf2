import type { FleetTask, ToolDefinition } from '../contracts/index.ts';
import { FleetApiError, imageTypeOf, withSlash } from './api/index.ts';
import type { CreatedInstance } from './creation.ts';
import type {
  Environment,
  EnvironmentState,
  ToolCallOptions,
  ToolResult,
  VerifierAnswer,
  VerifierRequest,
} from './environment.ts';
import { infraFailure, reasonOf } from './fleet-failure.ts';
import { crashPoint } from '../observe/index.ts';
import { Heartbeat } from './heartbeat.ts';
import { openToolSet, type ToolSet } from './mcp/tool-set.ts';
import { removeInstance, type FleetParts } from './remove-instance.ts';
import { executeVerifier } from './verifier/execute.ts';
import type { KnownVerifiers } from './verifier/known-verifiers.ts';

export interface FleetEnvironmentOptions {
  readonly task: FleetTask;
  readonly made: CreatedInstance;
  readonly known: KnownVerifiers;
  /** It is deleted, or was given up to the sweeps. Never rejects. */
  readonly onClosed: () => Promise<void>;
}

/** Endpoints of an instance, best first: an `mcp` image has only the aggregator. Source: the public OpenEnv source. */
export function mcpEndpoints(root: string, task: FleetTask): readonly string[] {
  const aggregator = `${withSlash(root)}api/v1/mcp`;
  return imageTypeOf(task) === 'mcp' ? [aggregator] : [`${withSlash(root)}mcp`, aggregator];
}

/**
 * An instance of the Fleet service. It is not reset after its creation: it was seeded a moment ago and nobody has touched
 * it, a reset costs up to 10 s, and on some images it hangs (the vendor's own environment goes on without it then).
 */
export class FleetEnvironment implements Environment {
  readonly provider = 'fleet';
  readonly id: string;
  readonly #parts: FleetParts;
  readonly #options: FleetEnvironmentOptions;
  readonly #tools: ToolSet;
  readonly #heartbeat: Heartbeat;
  #gone = false;
  #askedAt = Number.NEGATIVE_INFINITY;
  #asking: Promise<EnvironmentState> | undefined;
  #closing: Promise<void> | undefined;

  constructor(parts: FleetParts, options: FleetEnvironmentOptions) {
    const { client, log, timings } = parts;
    const { instance, root } = options.made;
    this.id = instance.instance_id;
    this.#parts = parts;
    this.#options = options;
    this.#tools = openToolSet({
      endpoints: mcpEndpoints(root, options.task),
      headers: client.authorization,
      modality: options.task.modality,
      log,
      isGone: async () => (await this.#ask()) === 'gone',
    });
    this.#heartbeat = new Heartbeat({
      client,
      id: this.id,
      region: instance.heartbeat_region ?? null,
      everyMs: timings.heartbeatEvery,
      log,
      isGone: async () => (await this.#ask()) === 'gone',
    });
  }

  get metrics(): Readonly<Record<string, number | boolean | string>> {
    const { made } = this.#options;
    return {
      environment_create_ms: made.create_ms,
      environment_wait_ms: made.wait_ms,
      environment_create_tries: made.tries,
      ...this.#tools.metrics,
    };
  }

  async tools(options: ToolCallOptions): Promise<readonly ToolDefinition[]> {
    this.#throwIfGone();
    return this.#tools.list(options);
  }

  async callTool(
    name: string,
    args: Readonly<Record<string, unknown>>,
    options: ToolCallOptions,
  ): Promise<ToolResult> {
    this.#throwIfGone();
    return this.#tools.call(name, args, options);
  }

  async state(): Promise<EnvironmentState> {
    if (this.#gone) return 'gone';
    if (performance.now() - this.#askedAt < this.#parts.timings.stateFresh) return 'running';
    return this.#ask();
  }

  /** The wire cannot give an instance more time than it was created with. */
  async extend(): Promise<void> {
    // Nothing to ask.
  }

  async verify(request: VerifierRequest): Promise<VerifierAnswer> {
    const { task, known } = this.#options;
    let answer: VerifierAnswer | undefined;
    try {
      const { client } = this.#parts;
      answer = await executeVerifier({ client, known, task, instance_id: this.id, request });
      return answer;
    } finally {
      // Whether it is still there is to be asked anew, then.
      if (answer?.success !== true) this.#askedAt = Number.NEGATIVE_INFINITY;
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await (this.#closing ??= this.#close());
  }

  #throwIfGone(): void {
    if (!this.#gone) return;
    throw infraFailure('environment_gone', `environment ${this.id} is not there any more`, {
      phase: 'agent',
    });
  }

  /** Asks the service now; several who ask at once share an answer. */
  async #ask(): Promise<EnvironmentState> {
    if (this.#gone) return 'gone';
    this.#asking ??= this.#look().finally(() => (this.#asking = undefined));
    return this.#asking;
  }

  async #look(): Promise<EnvironmentState> {
    const { client, timings } = this.#parts;
    try {
      // One 404 is no proof, after a creation or while the service is being replaced. Source: the vendor's SDK.
      const { status } = await client.instance(this.id, {
        timeout_ms: timings.stateAsk,
        retryNotFound: true,
      });
      this.#gone ||= status === 'stopped' || status === 'error';
    } catch (error) {
      // No answer says nothing: its tools will tell.
      this.#gone ||= error instanceof FleetApiError && error.kind === 'not_found';
    }
    this.#askedAt = performance.now();
    return this.#gone ? 'gone' : 'running';
  }

  async #close(): Promise<void> {
    const { made, onClosed } = this.#options;
    this.#heartbeat[Symbol.dispose]();
    // Within seconds whatever its servers do, so that the deletion is not kept waiting.
    await this.#closeTools();
    crashPoint('environment.delete:before');
    await removeInstance(this.#parts, this.id, made.run_id);
    crashPoint('environment.delete:after');
    await onClosed();
  }

  async #closeTools(): Promise<void> {
    try {
      await this.#tools[Symbol.asyncDispose]();
    } catch (error) {
      this.#parts.log.warn(
        { instance: this.id, why: reasonOf(error) },
        'could not close the tools of an environment',
      );
    }
  }
}
