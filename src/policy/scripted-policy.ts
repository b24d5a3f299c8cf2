import { createHash, randomInt, timingSafeEqual } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { silentLogger, type Logger } from '../observe/index.ts';
import { answerSampled, chatWire, type ChatRouteOptions } from './chat-route.ts';
import { parseDetokenizeRequest, parseTokenizeRequest } from './chat-request.ts';
import { renderPrompt, type CallFormat, type RenderOptions, type TemplateName } from './chat-template.ts';
import { completionWire } from './completion-route.ts';
import { Completions } from './completions.ts';
import { FaultQueue, type FaultInput } from './faults.ts';
import { readJson, sendJson } from './http-exchange.ts';
import { Refusal, badRequest, malformed, unknownModel } from './refusal.ts';
import { SampleLog, type SampledCall } from './sample-log.ts';
import type { Script } from './script-schema.ts';
import { SglangRoutes } from './sglang-route.ts';
import { decodeTokens, encodeWithSpecials, isToken } from './tokenizer.ts';
import { TurnMemory } from './turn-memory.ts';

export interface ScriptedPolicyOptions {
  readonly scripts: readonly Script[];
  /** Whose wire it speaks. Default: `vllm`. */
  readonly engine?: 'vllm' | 'sglang';
  /** Version of the weights that SGLang's answers name; a `weights` fault changes it. Default: `default`. */
  readonly weightVersion?: string;
  /** Default: `plain`. */
  readonly template?: TemplateName;
  /** How it writes calls, and its template shows them. Default: `line`. */
  readonly callFormat?: CallFormat;
  /** Default: a free port. */
  readonly port?: number;
  /** Default: `127.0.0.1`. */
  readonly host?: string;
  /** Name of the model; any other is refused. Default: `scripted`. */
  readonly model?: string;
  /** Bearer that `/v1` routes ask for. Default: none. */
  readonly apiKey?: string;
  /** Tokens of prompt and answer together. Default: 32768. */
  readonly maxModelLen?: number;
  /** Numbers for requests without a seed derive from it. Default: a random one. */
  readonly seed?: number;
  /** Which logprobs are reported, as vLLM's `--logprobs-mode`. Default: `processed`. */
  readonly logprobsMode?: 'processed' | 'raw';
  /** Mean probability that a token is written as a shorter piece than the canonical one. Default: 0.01. */
  readonly splitRate?: number;
  /** Milliseconds before an answer begins. Default: 0. */
  readonly latencyMs?: number;
  /** Milliseconds a sampled token takes. Default: 0. */
  readonly tokenMs?: number;
  /** Turns whose sampled ids the plain template can find again. Default: 20000. */
  readonly memoryTurns?: number;
  /** Calls `samples()` keeps. Default: 2000. */
  readonly keepSamples?: number;
  /** File to which every sampled call is appended as a JSON line. Default: none. */
  readonly samplesLog?: string;
  /** Faults of the next calls; more through `fault()` or `POST /__faults`. */
  readonly faults?: FaultInput | readonly FaultInput[];
  readonly log?: Logger;
}

/** A running scripted policy. Disposing it closes every connection. */
export interface ScriptedPolicy extends AsyncDisposable {
  /** `http://host:port`, without `/v1`. */
  readonly url: string;
  readonly port: number;
  readonly model: string;
  readonly seed: number;
  /** The latest sampled calls, oldest first. */
  samples(): readonly SampledCall[];
  /** Adds faults for the next chat calls. */
  fault(faults: FaultInput | readonly FaultInput[]): void;
  clearFaults(): void;
  /** The ids of calls that clients aborted by `/abort_request` (SGLang). */
  aborts(): readonly string[];
}

/** The engine release whose wire this server imitates. */
const imitated = '0.32.0';

const digest = (text: string): Buffer => createHash('sha256').update(text).digest();

class Routes {
  readonly #options: ChatRouteOptions;
  readonly #template: RenderOptions;
  readonly #maxModelLen: number;
  readonly #apiKey: string | undefined;
  /** null: the wire is vLLM's. */
  readonly #sglang: SglangRoutes | null;
  readonly #created = Math.floor(Date.now() / 1000);

  constructor(
    options: ChatRouteOptions,
    template: RenderOptions,
    maxModelLen: number,
    apiKey: string | undefined,
    sglang: SglangRoutes | null,
  ) {
    this.#sglang = sglang;
    this.#options = options;
    this.#template = template;
    this.#maxModelLen = maxModelLen;
    this.#apiKey = apiKey;
  }

  async serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const path = new URL(request.url ?? '/', 'http://policy').pathname;
    // As in the engine, the key guards /v1 alone.
    if (path.startsWith('/v1/') && !this.#authorised(request)) {
      sendJson(response, 401, JSON.stringify({ error: 'Unauthorized' }));
      return;
    }
    const route = `${request.method} ${path}`;
    if (this.#sglang !== null && (await this.#sglang.serve(route, request, response))) return;
    switch (route) {
      case 'POST /v1/chat/completions':
        return answerSampled(chatWire, await readJson(request), request, response, this.#options);
      case 'POST /v1/completions':
        return answerSampled(completionWire, await readJson(request), request, response, this.#options);
      case 'GET /v1/models':
        return sendJson(response, 200, JSON.stringify(this.#models()));
      case 'POST /tokenize':
        return sendJson(response, 200, JSON.stringify(this.#tokenize(await readJson(request))));
      case 'POST /detokenize':
        return sendJson(response, 200, JSON.stringify(this.#detokenize(await readJson(request))));
      case 'GET /health':
      case 'GET /ping':
        response.writeHead(200, { 'content-length': 0 });
        response.end();
        return;
      case 'GET /version':
        return sendJson(response, 200, JSON.stringify({ version: imitated }));
      case 'POST /__faults':
        this.#options.faults.add(await readJson(request));
        return sendJson(response, 200, '{}');
      case 'DELETE /__faults':
        this.#options.faults.clear();
        return sendJson(response, 200, '{}');
      default:
        sendJson(response, 404, JSON.stringify({ detail: 'Not Found' }));
    }
  }

  #authorised(request: IncomingMessage): boolean {
    if (this.#apiKey === undefined) return true;
    return timingSafeEqual(digest(request.headers.authorization ?? ''), digest(`Bearer ${this.#apiKey}`));
  }

  #checkModel(model: string | null | undefined): void {
    if (model && model !== this.#options.model) throw unknownModel(model);
  }

  #models(): unknown {
    const { model } = this.#options;
    const card = {
      id: model,
      object: 'model',
      created: this.#created,
      owned_by: this.#sglang === null ? 'vllm' : 'sglang',
      root: model,
      parent: null,
    };
    return { object: 'list', data: [{ ...card, max_model_len: this.#maxModelLen, permission: [] }] };
  }

  #tokenize(body: unknown): unknown {
    const request = parseTokenizeRequest(body);
    if (this.#sglang !== null && !('prompt' in request)) {
      throw malformed("[{'type': 'missing', 'loc': ('body', 'prompt'), 'msg': 'Field required'}]");
    }
    this.#checkModel(request.model);
    const tokens =
      'prompt' in request && typeof request.prompt === 'string'
        ? encodeWithSpecials(request.prompt)
        : [...this.#render(request as Exclude<typeof request, { prompt: string }>)];
    const strings = request['return_token_strs'] === true ? tokens.map((id) => decodeTokens([id])) : null;
    return { count: tokens.length, max_model_len: this.#maxModelLen, tokens, token_strs: strings };
  }

  #render(request: Extract<ReturnType<typeof parseTokenizeRequest>, { messages: unknown[] }>): Int32Array {
    return renderPrompt(request.messages, request.tools ?? [], {
      ...this.#template,
      addGenerationPrompt: request.add_generation_prompt,
    }).ids;
  }

  #detokenize(body: unknown): unknown {
    const request = parseDetokenizeRequest(body);
    this.#checkModel(request.model);
    const unknown = request.tokens.find((id) => !isToken(id));
    if (unknown !== undefined) throw badRequest(`Token id ${unknown} is out of vocabulary`);
    return { prompt: decodeTokens(request.tokens) };
  }
}

async function respond(
  routes: Routes,
  sglang: boolean,
  log: Logger,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  const started = performance.now();
  try {
    await routes.serve(request, response);
  } catch (error) {
    const refusal =
      error instanceof Refusal ? error : new Refusal(500, 'Internal server error', 'InternalServerError');
    if (!(error instanceof Refusal)) log.error({ err: error, path: request.url }, 'policy: a request failed');
    if (response.headersSent) response.destroy();
    else sendJson(response, refusal.status, JSON.stringify(sglang ? refusal.flatBody() : refusal.body()));
  }
  const ms = Math.round(performance.now() - started);
  log.debug(
    { method: request.method, path: request.url, status: response.statusCode, ms },
    'policy: answered',
  );
}

/** The server cannot start: one line naming what stands in the way. */
export class PolicyStartError extends Error {
  constructor(message: string, options: { cause: unknown }) {
    super(message, options);
    this.name = 'PolicyStartError';
  }
}

const codeOf = (cause: unknown): string => (cause as NodeJS.ErrnoException).code ?? String(cause);

function openLog(options: ScriptedPolicyOptions): SampleLog {
  try {
    return new SampleLog(options.keepSamples ?? 2_000, options.samplesLog);
  } catch (cause) {
    throw new PolicyStartError(`cannot write the samples log ${options.samplesLog} (${codeOf(cause)})`, {
      cause,
    });
  }
}

/** Starts a scripted policy: a server that speaks vLLM's or SGLang's wire and plays scripts. See docs/policy.md. Throws `PolicyStartError`. */
export async function startScriptedPolicy(options: ScriptedPolicyOptions): Promise<ScriptedPolicy> {
  const host = options.host ?? '127.0.0.1';
  const model = options.model ?? 'scripted';
  const seed = options.seed ?? randomInt(2 ** 31);
  const maxModelLen = options.maxModelLen ?? 32_768;
  const template = options.template ?? 'plain';
  const callFormat = options.callFormat ?? 'line';
  const memory = new TurnMemory(options.memoryTurns ?? 20_000);
  const samples = openLog(options);
  const faults = new FaultQueue();
  if (options.faults !== undefined) faults.add(options.faults);
  const engine = options.engine ?? 'vllm';
  const completions = new Completions({
    engine,
    model,
    scripts: options.scripts,
    template,
    callFormat,
    maxModelLen,
    logprobsMode: options.logprobsMode ?? 'processed',
    splitRate: options.splitRate ?? 0.01,
    seed,
    memory,
    log: samples,
  });
  const { latencyMs = 0, tokenMs = 0 } = options;
  const chat = { completions, faults, model, latencyMs, tokenMs };
  const sglang = engine === 'sglang' ? new SglangRoutes(chat, options.weightVersion) : null;
  const routes = new Routes(chat, { template, callFormat, memory }, maxModelLen, options.apiKey, sglang);
  const log = options.log ?? silentLogger;
  const server = createServer(
    (request, response) => void respond(routes, sglang !== null, log, request, response),
  );
  // Clients hold their connections; nothing here is exposed to strangers who would let them idle.
  server.keepAliveTimeout = 75_000;
  server.requestTimeout = 0;
  server.listen(options.port ?? 0, host);
  try {
    await once(server, 'listening');
  } catch (cause) {
    throw new PolicyStartError(`cannot listen on ${host}:${options.port ?? 0} (${codeOf(cause)})`, { cause });
  }
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://${host.includes(':') ? `[${host}]` : host}:${port}`,
    port,
    model,
    seed,
    samples: () => samples.all(),
    fault: (more) => faults.add(more),
    clearFaults: () => faults.clear(),
    aborts: () => sglang?.aborts ?? [],
    async [Symbol.asyncDispose]() {
      if (!server.listening) return;
      const closed = once(server, 'close');
      server.close();
      server.closeAllConnections();
      await closed;
    },
  };
}
