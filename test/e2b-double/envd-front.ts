import { request as httpRequest, type IncomingMessage, type ServerResponse } from 'node:http';
import { readBody, sendAnswer } from './answers.ts';
import type { Faults, FaultPlace } from './faults.ts';
import type { LiveSandbox } from './live-sandbox.ts';

import { StreamFaults } from './stream-faults.ts';

/** Port of envd in every sandbox (facts: E2B 2.3). */
const envdPort = 49983;
const startPath = '/process.Process/Start';
const connectPath = '/process.Process/Connect';

export interface EnvdFrontOptions {
  readonly faults: Faults;
  readonly find: (sandboxID: string) => LiveSandbox | undefined;
  readonly count: (call: string) => void;
}

/** The shared host of all sandboxes: leads each request to the envd that its headers name (facts: E2B 2.1). */
export class EnvdFront {
  readonly #options: EnvdFrontOptions;
  /** Text of the commands that run, by sandbox and pid. */
  readonly #commands = new Map<string, string>();

  constructor(options: EnvdFrontOptions) {
    this.#options = options;
  }

  async handle(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { faults, find, count } = this.#options;
    const path = (request.url ?? '/').split('?')[0]!;
    count(`envd ${request.method ?? ''} ${path}`);
    const sandboxID = String(request.headers['e2b-sandbox-id'] ?? '');
    const sandbox = find(sandboxID);
    const port = Number(request.headers['e2b-sandbox-port'] ?? envdPort);
    if (sandbox?.state !== 'running' || port !== envdPort) {
      const message =
        sandbox === undefined ? 'The sandbox was not found' : 'The sandbox is running but port is not open';
      request.resume();
      sendAnswer(response, { status: 502, body: { sandboxId: sandboxID, message, code: 502 } });
      return;
    }
    const streams = path === startPath || path === connectPath;
    const body = streams ? await readBody(request) : null;
    const command = body === null ? undefined : this.#commandOf(sandboxID, body);
    const place: FaultPlace = {
      call: 'envd',
      sandboxId: sandboxID,
      ...(command === undefined ? {} : { command }),
    };
    const refused = faults.take('refuse', place);
    if (refused !== null) {
      request.resume();
      const { status, message = 'refused' } = refused;
      sendAnswer(response, { status, body: { sandboxId: sandboxID, message, code: status } });
      return;
    }
    if (faults.take('break', place) !== null) {
      response.destroy();
      return;
    }
    const delayed = faults.take('delay', place);
    if (delayed !== null) await new Promise((resolve) => setTimeout(resolve, delayed.ms));
    // Open without an answer: until the client leaves or the sandbox goes.
    if (streams && sandbox.hangsCommands) this.#tie(sandbox, response);
    else this.#forward(request, response, sandbox, body, place);
  }

  #forward(
    request: IncomingMessage,
    response: ServerResponse,
    sandbox: LiveSandbox,
    body: Buffer | null,
    place: FaultPlace,
  ): void {
    const { host: _host, connection: _connection, ...headers } = request.headers;
    const upstream = httpRequest({
      socketPath: sandbox.container.socketPath,
      path: request.url,
      method: request.method,
      headers,
      agent: sandbox.container.agent,
    });
    const untie = this.#tie(sandbox, response, () => upstream.destroy());
    upstream.on('error', () => {
      if (response.headersSent) response.destroy();
      else {
        const answer = { sandboxId: sandbox.sandboxID, message: 'The sandbox was not found', code: 502 };
        sendAnswer(response, { status: 502, body: answer });
      }
    });
    upstream.on('response', (answer) => {
      const { connection: _its, ...its } = answer.headers;
      response.writeHead(answer.statusCode ?? 502, its);
      response.flushHeaders();
      answer.on('error', () => response.destroy());
      answer.on('aborted', () => response.destroy());
      if (body === null) answer.pipe(response);
      else {
        new StreamFaults(this.#options.faults, place).carry(answer, response, (pid) => {
          if (place.command === undefined) return;
          this.#commands.set(`${sandbox.sandboxID} ${pid}`, place.command);
        });
      }
    });
    response.on('close', untie);
    if (body !== null) upstream.end(body);
    else request.pipe(upstream);
  }

  /** Ends a response with its sandbox. */
  #tie(sandbox: LiveSandbox, response: ServerResponse, also: () => void = () => undefined): () => void {
    const end = (): void => {
      response.destroy();
      also();
    };
    const untie = (): void => {
      sandbox.connections.delete(end);
      also();
    };
    sandbox.connections.add(end);
    response.on('close', untie);
    return untie;
  }

  #commandOf(sandboxID: string, body: Buffer): string | undefined {
    try {
      const message = JSON.parse(body.subarray(5).toString()) as {
        process?: { args?: string[]; selector?: unknown; pid?: number };
      };
      if (message.process?.args !== undefined) return message.process.args.at(-1);
      return this.#commands.get(`${sandboxID} ${message.process?.pid ?? ''}`);
    } catch {
      return undefined;
    }
  }
}
