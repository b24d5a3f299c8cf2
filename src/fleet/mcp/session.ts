import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import type { JsonSchemaValidator, jsonSchemaValidator } from '@modelcontextprotocol/sdk/validation';
import type { Dispatcher } from 'undici';
import { z } from 'zod';
import { capped } from './capped.ts';
import { exchange } from './http-exchange.ts';
import { SessionTransport } from './session-transport.ts';
import type { RawToolResult } from './tool-result.ts';

/** A tool as the server lists it. */
export interface ListedTool {
  readonly name: string;
  readonly description: string | null;
  readonly inputSchema: unknown;
  /** Its annotations say that calling it again changes nothing more (`readOnlyHint` or `idempotentHint`). */
  readonly repeatable: boolean;
}

const listedToolSchema = z.looseObject({
  name: z.string().min(1),
  description: z.string().nullish().catch(null),
  inputSchema: z.unknown().optional(),
  annotations: z
    .looseObject({ readOnlyHint: z.unknown().optional(), idempotentHint: z.unknown().optional() })
    .nullish()
    .catch(null),
});

/** Looser than the SDK's own schemas, which would refuse a whole answer for one part that they do not know. */
const pageSchema = z.looseObject({
  tools: z.array(z.unknown()).default([]),
  nextCursor: z.string().nullish().catch(null),
});
const resultSchema = z.looseObject({
  content: z.unknown().optional(),
  structuredContent: z.unknown().optional(),
  toolResult: z.unknown().optional(),
  isError: z.unknown().optional(),
});

/** No server has more; one whose cursor never ends is not followed for ever. */
const mostPages = 100;

/** Results are not checked against output schemas: a model reads them as they are, and compiling schemas costs. */
const unchecked: jsonSchemaValidator = {
  getValidator<T>(): JsonSchemaValidator<T> {
    return (input) => ({ valid: true, data: input as T, errorMessage: undefined });
  },
};

/** The SDK's own time-out, which must not come first: it cannot be told from an error of the server's. */
const neverFirst = 2 ** 31 - 1;

export interface SessionOptions {
  readonly url: URL;
  readonly headers: Readonly<Record<string, string>>;
  readonly dispatcher: Dispatcher;
  /** Milliseconds that ending it may take. */
  readonly closeMs: number;
}

/** An open MCP session. Its operations reject with what the SDK throws, with OutOfTime, or with the signal's reason. */
export class Session implements AsyncDisposable {
  readonly #client: Client;
  readonly #transport: SessionTransport;
  readonly #options: SessionOptions;
  #ended: Promise<void> | null = null;
  /** Operations on their way. */
  inFlight = 0;
  /** An operation succeeded in it. */
  proven = false;
  /** No new operation uses it. */
  stale = false;
  /** The server has no such session any more. */
  unknownToServer = false;

  private constructor(options: SessionOptions) {
    this.#options = options;
    this.#transport = new SessionTransport(options.url, options.headers, options.dispatcher);
    this.#client = new Client({ name: 'rollpool', version: '1' }, { jsonSchemaValidator: unchecked });
    // Whatever matters comes as the rejection of a request.
    this.#client.onerror = () => undefined;
  }

  static async open(options: SessionOptions, ms: number, signal: AbortSignal): Promise<Session> {
    const session = new Session(options);
    try {
      await capped(ms, signal, (own) =>
        session.#client.connect(session.#transport, { signal: own, timeout: neverFirst }),
      );
      return session;
    } catch (error) {
      // One that the server made and that cannot be used is ended too.
      await session[Symbol.asyncDispose]();
      throw error;
    }
  }

  /** null for a server that keeps no sessions. */
  get id(): string | null {
    return this.#transport.sessionId ?? null;
  }

  /** All pages; entries that are no tools are left out. */
  async listTools(ms: number, signal: AbortSignal): Promise<readonly ListedTool[]> {
    return capped(ms, signal, async (own) => {
      const tools: ListedTool[] = [];
      const seen = new Set<string>();
      for (let cursor: string | undefined; seen.size < mostPages;) {
        const page = await this.#client.request(
          { method: 'tools/list', params: cursor === undefined ? {} : { cursor } },
          pageSchema,
          { signal: own, timeout: neverFirst },
        );
        tools.push(...page.tools.flatMap(listed));
        if (!page.nextCursor || seen.has(page.nextCursor)) break;
        cursor = page.nextCursor;
        seen.add(cursor);
      }
      return tools;
    });
  }

  async callTool(
    name: string,
    args: Readonly<Record<string, unknown>>,
    ms: number,
    signal: AbortSignal,
  ): Promise<RawToolResult> {
    return capped(ms, signal, (own) =>
      this.#client.request({ method: 'tools/call', params: { name, arguments: { ...args } } }, resultSchema, {
        signal: own,
        timeout: neverFirst,
      }),
    );
  }

  /** Ends it on the server (DELETE, answered or not within its time), then whatever of it is still open here. */
  [Symbol.asyncDispose](): Promise<void> {
    this.#ended ??= this.#end();
    return this.#ended;
  }

  async #end(): Promise<void> {
    const { url, headers, dispatcher, closeMs } = this.#options;
    const id = this.#transport.sessionId;
    if (id !== undefined && !this.unknownToServer) {
      const version = this.#transport.protocolVersion;
      const sessionHeaders = {
        ...headers,
        'mcp-session-id': id,
        ...(version !== undefined && { 'mcp-protocol-version': version }),
      };
      await capped(closeMs, new AbortController().signal, async (signal) => {
        const request = { url, method: 'DELETE' as const, headers: sessionHeaders, body: null, signal };
        await exchange(dispatcher, request, () => undefined);
      }).catch(() => undefined);
    }
    await this.#client.close().catch(() => undefined);
    // A session whose opening failed half-way has a transport that the client let go of.
    await this.#transport.close().catch(() => undefined);
  }
}

function listed(entry: unknown): ListedTool[] {
  const parsed = listedToolSchema.safeParse(entry);
  if (!parsed.success) return [];
  const { name, description, inputSchema, annotations } = parsed.data;
  const repeatable = annotations?.readOnlyHint === true || annotations?.idempotentHint === true;
  return [{ name, description: description ?? null, inputSchema, repeatable }];
}
