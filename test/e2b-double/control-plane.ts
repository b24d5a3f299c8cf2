import type { IncomingMessage, ServerResponse } from 'node:http';
import { ApiError, readBody, readJson, sendAnswer, sendError, type Answer } from './answers.ts';
import type { CallName, Faults } from './faults.ts';
import { describeCreated, describeDetail, describeListed, type LiveSandbox } from './live-sandbox.ts';
import { pageOf, sandboxesAsked } from './listing.ts';
import type { RateLimiter } from './rate-limiter.ts';
import type { Sandboxes } from './sandboxes.ts';
import type { Templates } from './templates.ts';

export interface ControlPlaneOptions {
  readonly apiKey: string;
  readonly sandboxes: Sandboxes;
  readonly templates: Templates;
  readonly faults: Faults;
  readonly creations: RateLimiter | null;
  /** Where this server is reached. */
  readonly url: () => string;
  readonly count: (call: string) => void;
}

interface Call {
  readonly request: IncomingMessage;
  readonly url: URL;
  /** What the path's pattern caught. */
  readonly parts: readonly string[];
}

interface Route {
  readonly method: string;
  readonly path: RegExp;
  readonly call: CallName;
  readonly act: (call: Call) => Promise<Answer> | Answer;
  /** After the answer was sent, or was not because it is lost. */
  readonly after?: (answer: Answer) => void;
}

/** E2B's REST API, in both versions of its paths (facts: E2B 2.2). */
export class ControlPlane {
  readonly #options: ControlPlaneOptions;
  readonly #routes: readonly Route[];

  constructor(options: ControlPlaneOptions) {
    this.#options = options;
    this.#routes = [...this.#sandboxRoutes(), ...this.#templateRoutes()];
  }

  async handle(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { apiKey, faults, count } = this.#options;
    const url = new URL(request.url ?? '/', 'http://double');
    if (url.pathname.startsWith('/upload/')) {
      await this.#upload(request, response, url);
      return;
    }
    try {
      const [route, parts] = this.#find(request.method ?? 'GET', url.pathname);
      count(route.call);
      if (request.headers['x-api-key'] !== apiKey) throw new ApiError(401, 'Invalid API key');
      const place = { call: route.call, ...(parts[0] === undefined ? {} : { sandboxId: parts[0] }) };
      const refused = faults.take('refuse', place);
      if (refused !== null) {
        const { status, message = 'refused', error_code: errorCode, retry_after_s: after } = refused;
        const headers: Record<string, string> = after === undefined ? {} : { 'retry-after': String(after) };
        throw new ApiError(status, message, { errorCode, headers });
      }
      const delayed = faults.take('delay', place);
      const lost = faults.take('lose', place);
      const broken = faults.take('break', place);
      const answer = await route.act({ request, url, parts });
      if (delayed !== null) await new Promise((resolve) => setTimeout(resolve, delayed.ms));
      if (broken !== null) response.destroy();
      else if (lost === null) sendAnswer(response, answer);
      route.after?.(answer);
    } catch (error) {
      request.resume();
      sendError(response, error);
    }
  }

  #find(method: string, path: string): [Route, string[]] {
    for (const route of this.#routes) {
      const found = route.method === method ? route.path.exec(path) : null;
      if (found !== null) return [route, found.slice(1).map(decodeURIComponent)];
    }
    throw new ApiError(404, `no such route: ${method} ${path}`);
  }

  #sandboxRoutes(): Route[] {
    const { sandboxes, creations } = this.#options;
    const of = ({ parts }: Call): LiveSandbox => sandboxes.get(parts[0]!);
    return [
      {
        method: 'POST',
        path: /^(?:\/v2)?\/sandboxes$/,
        call: 'create',
        act: async ({ request }) => {
          const body = await readJson(request);
          creations?.pass();
          return { status: 201, body: describeCreated(await sandboxes.create(body)) };
        },
        after: ({ body }) => {
          const made = sandboxes.live.get((body as { sandboxID: string }).sandboxID);
          if (made !== undefined) sandboxes.applyFaults(made);
        },
      },
      {
        method: 'GET',
        path: /^(?:\/v2)?\/sandboxes$/,
        call: 'list',
        act: ({ url }) => {
          const found = sandboxesAsked([...sandboxes.live.values()], url.searchParams);
          return pageOf(found.map(describeListed), url.searchParams);
        },
      },
      {
        method: 'POST',
        path: /^(?:\/v2)?\/sandboxes\/([^/]+)\/(?:connect|resume)$/,
        call: 'connect',
        act: async (call) => {
          const body = await readJson(call.request);
          const sandbox = of(call);
          const paused = sandbox.state === 'paused';
          if (paused) await sandboxes.resume(sandbox, body['memory'] !== false);
          sandboxes.extendTo(sandbox, body['timeout']);
          return { status: paused ? 201 : 200, body: describeCreated(sandbox) };
        },
      },
      {
        method: 'GET',
        path: /^\/sandboxes\/([^/]+)$/,
        call: 'info',
        act: (call) => ({ status: 200, body: describeDetail(of(call)) }),
      },
      {
        method: 'DELETE',
        path: /^\/sandboxes\/([^/]+)$/,
        call: 'kill',
        act: async (call) => {
          await sandboxes.remove(of(call).sandboxID);
          return { status: 204 };
        },
      },
      {
        method: 'POST',
        path: /^\/sandboxes\/([^/]+)\/timeout$/,
        call: 'timeout',
        act: async (call) => {
          const body = await readJson(call.request);
          sandboxes.shorten(of(call), body['timeout']);
          return { status: 204 };
        },
      },
      {
        method: 'POST',
        path: /^\/sandboxes\/([^/]+)\/pause$/,
        call: 'pause',
        act: async (call) => {
          const body = await readJson(call.request);
          await sandboxes.pause(of(call), body['memory'] !== false);
          return { status: 204 };
        },
      },
      {
        method: 'PUT',
        path: /^\/sandboxes\/([^/]+)\/network$/,
        call: 'network',
        act: async (call) => {
          of(call).network = await readJson(call.request);
          return { status: 204 };
        },
      },
      {
        method: 'GET',
        path: /^\/sandboxes\/([^/]+)\/metrics$/,
        call: 'metrics',
        act: (call) => {
          of(call);
          return { status: 200, body: [] };
        },
      },
      {
        method: 'POST',
        path: /^\/sandboxes\/([^/]+)\/snapshots$/,
        call: 'snapshot',
        act: async (call) => {
          const body = await readJson(call.request);
          const made = await sandboxes.snapshot(of(call), (body['name'] as string | undefined) ?? null);
          return { status: 201, body: { snapshotID: made.snapshotID, names: made.names } };
        },
      },
      {
        method: 'GET',
        path: /^\/snapshots$/,
        call: 'list_snapshots',
        act: ({ url }) => {
          const of = url.searchParams.get('sandboxID');
          const name = url.searchParams.get('name');
          const found = [...sandboxes.snapshots.values()].filter(
            ({ sandboxID, names }) =>
              (of === null || sandboxID === of) && (name === null || names.includes(name)),
          );
          return pageOf(
            found.map(({ snapshotID, names }) => ({ snapshotID, names })),
            url.searchParams,
          );
        },
      },
    ];
  }

  #templateRoutes(): Route[] {
    const { sandboxes, templates } = this.#options;
    const call = 'template';
    return [
      {
        method: 'POST',
        path: /^\/v[23]\/templates$/,
        call,
        act: async ({ request }) => {
          const body = await readJson(request);
          const { templateID, buildID, names } = templates.request(body);
          const tags = (body['tags'] as string[] | undefined) ?? ['default'];
          return { status: 202, body: { templateID, buildID, names, aliases: names, tags, public: false } };
        },
      },
      {
        method: 'GET',
        path: /^\/templates\/([^/]+)\/files\/([^/]+)$/,
        call,
        act: ({ parts }) => {
          const present = templates.uploads.has(parts[1]!);
          const url = `${this.#options.url()}/upload/${encodeURIComponent(parts[1]!)}`;
          return { status: 201, body: { present, ...(present ? {} : { url }) } };
        },
      },
      {
        method: 'POST',
        path: /^\/v2\/templates\/([^/]+)\/builds\/([^/]+)$/,
        call,
        act: async ({ request, parts }) => {
          templates.trigger(parts[0]!, parts[1]!, await readJson(request));
          return { status: 202 };
        },
      },
      {
        method: 'GET',
        path: /^\/templates\/([^/]+)\/builds\/([^/]+)\/status$/,
        call,
        act: ({ url, parts }) => ({
          status: 200,
          body: templates.status(parts[0]!, parts[1]!, Number(url.searchParams.get('logsOffset') ?? 0)),
        }),
      },
      {
        method: 'GET',
        path: /^\/templates\/aliases\/([^/]+)$/,
        call,
        act: ({ parts }) => {
          const found = templates.find(parts[0]!);
          if (found === null) throw new ApiError(404, `alias '${parts[0]!}' not found`);
          return { status: 200, body: { templateID: found.id, public: false } };
        },
      },
      {
        method: 'DELETE',
        path: /^\/templates\/([^/]+)$/,
        call,
        act: async ({ parts }) => {
          if (await sandboxes.removeSnapshot(parts[0]!)) return { status: 204 };
          if (templates.remove(parts[0]!)) return { status: 204 };
          throw new ApiError(404, `template '${parts[0]!}' not found`);
        },
      },
    ];
  }

  /** Where files of a COPY step are put: a presigned URL has no key. */
  async #upload(request: IncomingMessage, response: ServerResponse, url: URL): Promise<void> {
    this.#options.count('upload');
    const hash = decodeURIComponent(url.pathname.slice('/upload/'.length));
    // As S3 answers, which takes no body of unknown length.
    if (request.headers['content-length'] === undefined) {
      request.resume();
      sendAnswer(response, { status: 501 });
      return;
    }
    this.#options.templates.uploads.set(hash, await readBody(request));
    sendAnswer(response, { status: 200 });
  }
}
