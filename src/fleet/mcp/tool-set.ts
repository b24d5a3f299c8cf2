import { setMaxListeners } from 'node:events';
import type { Dispatcher } from 'undici';
import type { FleetTask, ToolDefinition } from '../../contracts/index.ts';
import type { Logger } from '../../observe/index.ts';
import type { ToolCallOptions, ToolResult } from '../environment.ts';
import { callTool } from './call-tool.ts';
import { capped } from './capped.ts';
import { Endpoint } from './endpoint.ts';
import { createMcpAgent } from './http-exchange.ts';
import { safeText, withoutSecrets } from './result-text.ts';
import { defaultTimings, type McpTimings } from './timings.ts';
import { legalNames } from './tool-names.ts';
import { toParameters } from './tool-schema.ts';
import { waitForTools, type OfferedTool } from './wait-for-tools.ts';

/** The tool that acts on a screen: all that the modalities with one have, and what tool_use does without. */
const computerTool = 'computer';

export interface ToolSetOptions {
  /** URLs of Streamable HTTP endpoints. Where two list the same tool, it belongs to the first. */
  readonly endpoints: readonly string[];
  /** Sent with every request. Values of credentials are taken out of all that a server says. */
  readonly headers: Readonly<Record<string, string>>;
  readonly modality: FleetTask['modality'];
  readonly log: Logger;
  /** Asked after failures; one that rejects or does not answer in time counts as `false`. */
  readonly isGone: () => Promise<boolean>;
  readonly timings?: Partial<McpTimings>;
  /** Connections to use, closed by whoever made them (`createMcpAgent`). Default: its own, closed with it. */
  readonly dispatcher?: Dispatcher;
}

export interface ToolSetMetrics extends Readonly<Record<string, number | boolean>> {
  /** Endpoints asked. */
  readonly mcp_endpoints: number;
  /** One of them is not there; the others' tools are all there are. */
  readonly mcp_endpoint_missing: boolean;
  /** One of them could not be listed in time: tools may be missing. */
  readonly mcp_endpoint_failed: boolean;
  readonly mcp_sessions_reopened: number;
  readonly tools: number;
  readonly tool_calls: number;
  /** Results with `is_error`. */
  readonly tool_errors: number;
  readonly tool_retries: number;
  /** Calls without an answer of the tool, which may be no fault of the model's. */
  readonly tool_unanswered: number;
}

/** The MCP tools of one environment. Disposing it ends its sessions, within seconds whatever the server does. */
export interface ToolSet extends AsyncDisposable {
  /** As Environment.tools. */
  list(options: ToolCallOptions): Promise<readonly ToolDefinition[]>;
  /** As Environment.callTool; `name` is one that `list` gave. */
  call(name: string, args: Readonly<Record<string, unknown>>, options: ToolCallOptions): Promise<ToolResult>;
  /** A snapshot. */
  readonly metrics: ToolSetMetrics;
}

class McpToolSet implements ToolSet {
  readonly #options: ToolSetOptions;
  readonly #timings: McpTimings;
  readonly #endpoints: readonly Endpoint[];
  readonly #ownAgent: Dispatcher | null;
  readonly #redacted: (text: string) => string;
  readonly #counts = { missing: false, failed: false, calls: 0, errors: 0, retries: 0, unanswered: 0 };
  #tools: ReadonlyMap<string, OfferedTool> = new Map();
  #gone: Promise<boolean> | null = null;
  readonly #closed = new AbortController();
  #closing: Promise<void> | null = null;

  constructor(options: ToolSetOptions) {
    const { headers } = options;
    const timings = { ...defaultTimings, ...options.timings };
    this.#options = options;
    this.#timings = timings;
    this.#ownAgent = options.dispatcher === undefined ? createMcpAgent() : null;
    const dispatcher = options.dispatcher ?? this.#ownAgent!;
    this.#endpoints = options.endpoints.map((url) => new Endpoint({ url, headers, dispatcher, timings }));
    this.#redacted = withoutSecrets(headers);
    setMaxListeners(1_000, this.#closed.signal);
  }

  async list(options: ToolCallOptions): Promise<readonly ToolDefinition[]> {
    const { modality, log } = this.#options;
    const screen = modality !== 'tool_use';
    const listing = await this.#whileOpen(options.signal, (signal) =>
      waitForTools({
        endpoints: this.#endpoints,
        wanted: (name) => (name === computerTool) === screen,
        wantedWords: screen ? `no tool ${computerTool}, which ${modality} needs,` : 'no tools',
        timeoutMs: options.timeout_ms,
        signal,
        timings: this.#timings,
        isGone: () => this.#isGone(),
        log,
      }),
    );
    this.#counts.missing = listing.missing;
    this.#counts.failed = listing.failed;
    if (listing.failed) {
      log.warn(
        { tools: listing.tools.length },
        'an MCP endpoint could not be listed: going on without its tools',
      );
    }
    const byName = new Map(listing.tools.map((tool) => [tool.name, tool]));
    const names = legalNames([...byName.keys()]);
    this.#tools = new Map([...names].map(([legal, name]) => [legal, byName.get(name)!]));
    const words = (text: string): string => this.#redacted(safeText(text));
    return [...this.#tools].map(([name, { description, inputSchema }]) => ({
      type: 'function',
      function: {
        name,
        ...(description !== null && { description: words(description) }),
        parameters: toParameters(inputSchema, words),
      },
    }));
  }

  async call(
    name: string,
    args: Readonly<Record<string, unknown>>,
    options: ToolCallOptions,
  ): Promise<ToolResult> {
    options.signal.throwIfAborted();
    this.#counts.calls++;
    const tool = this.#tools.get(name);
    const result =
      tool === undefined
        ? this.#unknownTool(name)
        : await this.#whileOpen(options.signal, (signal) =>
            callTool(tool, args, {
              timeoutMs: options.timeout_ms,
              signal,
              timings: this.#timings,
              isGone: () => this.#isGone(),
              onUnanswered: () => {
                this.#counts.unanswered++;
              },
              onRetry: (failure) => {
                this.#counts.retries++;
                this.#options.log.debug({ tool: name, failure: failure.message }, 'calling a tool again');
              },
            }),
          );
    if (result.is_error) this.#counts.errors++;
    return { ...result, text: this.#redacted(result.text) };
  }

  get metrics(): ToolSetMetrics {
    const { missing, failed, calls, errors, retries, unanswered } = this.#counts;
    return {
      mcp_endpoints: this.#endpoints.length,
      mcp_endpoint_missing: missing,
      mcp_endpoint_failed: failed,
      mcp_sessions_reopened: this.#endpoints.reduce((sum, { reopened }) => sum + reopened, 0),
      tools: this.#tools.size,
      tool_calls: calls,
      tool_errors: errors,
      tool_retries: retries,
      tool_unanswered: unanswered,
    };
  }

  #unknownTool(name: string): ToolResult {
    const names = [...this.#tools.keys()];
    const there = names.length === 0 ? 'There are no tools.' : `The tools are: ${names.join(', ')}.`;
    return { text: `There is no tool ${JSON.stringify(name)}. ${there}`, images: [], is_error: true };
  }

  /** Several failures at once are one question. */
  #isGone(): Promise<boolean> {
    this.#gone ??= capped(this.#timings.gone_ms, this.#closed.signal, () => this.#options.isGone())
      .catch(() => false)
      .finally(() => {
        this.#gone = null;
      });
    return this.#gone;
  }

  /** Ends with the caller's signal or with the set itself, at once. */
  #whileOpen<T>(signal: AbortSignal, operation: (signal: AbortSignal) => Promise<T>): Promise<T> {
    this.#closed.signal.throwIfAborted();
    return capped(Infinity, signal, (caller) =>
      capped(Infinity, this.#closed.signal, (own) => operation(AbortSignal.any([caller, own]))),
    );
  }

  [Symbol.asyncDispose](): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  async #close(): Promise<void> {
    this.#closed.abort(new Error('the tools of this environment are closed'));
    await Promise.all(this.#endpoints.map((endpoint) => endpoint[Symbol.asyncDispose]()));
    // Sockets that a hanging server still holds are cut, not waited for.
    await this.#ownAgent?.destroy();
  }
}

/** Opens nothing yet: sessions are opened by what is asked first. */
export function openToolSet(options: ToolSetOptions): ToolSet {
  return new McpToolSet(options);
}
