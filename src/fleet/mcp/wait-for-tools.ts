import { EpisodeError } from '../../contracts/index.ts';
import type { Logger } from '../../observe/index.ts';
import { pause } from './capped.ts';
import type { Endpoint } from './endpoint.ts';
import { McpFailure } from './mcp-failure.ts';
import type { ListedTool } from './session.ts';
import { backoffMs, type McpTimings } from './timings.ts';

export interface OfferedTool extends ListedTool {
  readonly endpoint: Endpoint;
}

export interface Listing {
  /** In the order of the endpoints and of their lists; a name belongs to the first that lists it. */
  readonly tools: readonly OfferedTool[];
  /** An endpoint is not there (404). */
  readonly missing: boolean;
  /** An endpoint is there and could not be listed in time. */
  readonly failed: boolean;
}

/** What an endpoint said last. */
type Standing =
  | { readonly state: 'listed'; readonly tools: readonly ListedTool[] }
  /** `refused` = asking again cannot help. */
  | { readonly state: 'asking' | 'missing' | 'failing' | 'refused'; readonly words: string };

export interface WaitForToolsOptions {
  readonly endpoints: readonly Endpoint[];
  /** Which tools the episode's modality has a use for. */
  readonly wanted: (name: string) => boolean;
  /** What is said when none is wanted of those that are there. */
  readonly wantedWords: string;
  readonly timeoutMs: number;
  readonly signal: AbortSignal;
  readonly timings: McpTimings;
  readonly isGone: () => Promise<boolean>;
  readonly log: Logger;
}

function standingOf(failure: McpFailure): Standing {
  const words = failure.message;
  // A server that has no MCP at all answers the first message so; an unknown session comes later.
  if (failure.opening && failure.isStatus(404, 405, 501)) return { state: 'missing', words };
  return { state: failure.isStatus(401, 403) ? 'refused' : 'failing', words };
}

/** Asks all endpoints at once, each in its own rhythm, until it is known which tools there are. */
class ToolWait {
  readonly #options: WaitForToolsOptions;
  readonly #standings: Standing[];
  readonly #over = new AbortController();
  #result: Listing | EpisodeError | null = null;
  #straggler: NodeJS.Timeout | null = null;
  #unwanted: NodeJS.Timeout | null = null;

  constructor(options: WaitForToolsOptions) {
    this.#options = options;
    this.#standings = options.endpoints.map(() => ({ state: 'asking', words: 'no answer yet' }));
  }

  async run(): Promise<Listing> {
    const { endpoints, timeoutMs, signal } = this.#options;
    signal.throwIfAborted();
    const abort = (): void => this.#over.abort(signal.reason);
    signal.addEventListener('abort', abort, { once: true });
    const timer = setTimeout(() => this.#timeIsUp(), timeoutMs);
    try {
      await Promise.all(endpoints.map((endpoint, index) => this.#ask(endpoint, index)));
    } catch (error) {
      signal.throwIfAborted();
      if (this.#result === null) throw error;
    } finally {
      clearTimeout(timer);
      clearTimeout(this.#straggler ?? undefined);
      clearTimeout(this.#unwanted ?? undefined);
      signal.removeEventListener('abort', abort);
      this.#over.abort();
    }
    const result = this.#result ?? this.#listing();
    if (result instanceof EpisodeError) throw result;
    return result;
  }

  async #ask(endpoint: Endpoint, index: number): Promise<void> {
    const { timings, timeoutMs, isGone, log } = this.#options;
    const { signal } = this.#over;
    for (let attempt = 0; ; attempt++) {
      try {
        const tools = await endpoint.run((session, ms, own) => session.listTools(ms, own), timeoutMs, signal);
        this.#standings[index] = { state: 'listed', tools };
      } catch (error) {
        if (!(error instanceof McpFailure)) throw error;
        this.#standings[index] = standingOf(error);
        log.debug({ endpoint: endpoint.name, attempt, failure: error.message }, 'listing tools failed');
        if ((attempt > 0 || error.kind === 'timeout') && (await isGone())) this.#finish(this.#gone());
      }
      signal.throwIfAborted();
      this.#consider();
      // What is missing or refused is asked again only while nobody has a tool.
      if (this.#settled(index)) return;
      await pause(backoffMs(timings, attempt), signal);
      if (this.#settled(index)) return;
    }
  }

  #settled(index: number): boolean {
    const state = this.#standings[index]?.state;
    if (state === 'refused') return true;
    return (state === 'listed' || state === 'missing') && this.#listing().tools.length > 0;
  }

  #consider(): void {
    const states = this.#standings.map(({ state }) => state);
    if (states.every((state) => state === 'refused')) return this.#finish(this.#noTools(false));
    const settled = !states.some((state) => state === 'asking' || state === 'failing');
    if (this.#listing().tools.length === 0) {
      if (settled && this.#standings.some((each) => each.state === 'listed' && each.tools.length > 0)) {
        this.#unwanted ??= setTimeout(
          () => this.#finish(this.#otherTools()),
          this.#options.timings.unwanted_ms,
        );
      }
      return;
    }
    if (settled) return this.#finish(this.#listing());
    this.#straggler ??= setTimeout(() => this.#timeIsUp(), this.#options.timings.straggler_ms);
  }

  #timeIsUp(): void {
    const listing = this.#listing();
    this.#finish(listing.tools.length > 0 ? listing : this.#noTools(true));
  }

  #finish(result: Listing | EpisodeError): void {
    this.#result ??= result;
    this.#over.abort(new Error('it is known which tools there are'));
  }

  #listing(): Listing {
    const tools = new Map<string, OfferedTool>();
    for (const [index, endpoint] of this.#options.endpoints.entries()) {
      const standing = this.#standings[index];
      if (standing?.state !== 'listed') continue;
      for (const tool of standing.tools) {
        if (!this.#options.wanted(tool.name) || tools.has(tool.name)) continue;
        tools.set(tool.name, { ...tool, endpoint });
      }
    }
    const states = this.#standings.map(({ state }) => state);
    return {
      tools: [...tools.values()],
      missing: states.includes('missing'),
      failed: states.some((state) => state === 'asking' || state === 'failing' || state === 'refused'),
    };
  }

  #lastWords(): string {
    const said = this.#options.endpoints.map(({ name }, index) => {
      const standing = this.#standings[index];
      if (standing?.state !== 'listed') return `${name}: ${standing?.words ?? ''}`;
      if (standing.tools.length === 0) return `${name}: an empty list`;
      const names = standing.tools.slice(0, 20).map((tool) => tool.name);
      return `${name}: ${names.join(', ')}${standing.tools.length > 20 ? ', …' : ''}`;
    });
    return said.join('; ');
  }

  #noTools(retryable: boolean): EpisodeError {
    const waited = retryable ? ` within ${Math.ceil(this.#options.timeoutMs / 1000)} seconds` : '';
    return new EpisodeError({
      class: 'infra',
      phase: 'boot',
      code: 'no_tools',
      message: `the environment offered ${this.#options.wantedWords}${waited} (${this.#lastWords()})`,
      retryable,
    });
  }

  /** Its servers are up: another instance of it would have no other tools. */
  #otherTools(): EpisodeError {
    return new EpisodeError({
      class: 'task',
      phase: 'boot',
      code: 'no_tools',
      message: `the environment offers ${this.#options.wantedWords} and has others (${this.#lastWords()})`,
    });
  }

  #gone(): EpisodeError {
    return new EpisodeError({
      class: 'infra',
      phase: 'boot',
      code: 'environment_gone',
      message: `the environment went away while its tools were waited for (${this.#lastWords()})`,
    });
  }
}

/**
 * The tools of all endpoints. An endpoint that is missing (404, or 405 or 501 to the first message) is done without as
 * soon as another one has tools; one that fails otherwise is asked again with backoff, and done without when its time is
 * up and another one has tools. An empty union is waited for. Rejects with EpisodeError `no_tools` (infra; task where all
 * endpoints have tools, and none that the modality can use) or `environment_gone` (infra), or with the signal's reason.
 */
export async function waitForTools(options: WaitForToolsOptions): Promise<Listing> {
  return new ToolWait(options).run();
}
