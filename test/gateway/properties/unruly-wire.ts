import { Agent, createServer, request as send, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import type { FaultInput, ScriptedPolicy } from '../../../src/policy/index.ts';
import type { Loose } from '../support/fake-vllm.ts';
import type { MovingState } from '../support/moving-state.ts';

/** What is done to one call between gateway and policy. */
export type WireFault =
  | { readonly kind: 'none' }
  /** Answered so without the policy. */
  | { readonly kind: 'status'; readonly status: number }
  /** The connection breaks behind this part of the answer's bytes. */
  | { readonly kind: 'cut'; readonly part: number }
  /** Nothing for so long, then the connection breaks. */
  | { readonly kind: 'hang'; readonly ms: number }
  /** Nothing until the gateway gives up. */
  | { readonly kind: 'mute' }
  /** The answer stops for so long behind this part of it. */
  | { readonly kind: 'late'; readonly part: number; readonly ms: number }
  /** The policy itself answers so. `tampers`: what it says then is not what it sampled. */
  | { readonly kind: 'policy'; readonly fault: FaultInput; readonly tampers: boolean }
  /** New weights in mid-call. */
  | { readonly kind: 'version'; readonly pause: 'none' | 'drain' | 'abort' };

/** One try of one call, as the wire saw it. */
export interface Exchange {
  readonly seed: number;
  /** Names the sample in the policy's log. */
  readonly id: string;
  readonly fault: WireFault;
  /** Whether all of a good answer came through. */
  passed: boolean;
  /** Whether the weights changed during it, and that without a pause. */
  changed: 'no' | 'paused' | 'unpaused';
}

const samplingRoutes = new Set(['/v1/chat/completions', '/v1/completions', '/generate']);

function seedOf(body: Loose): number | null {
  return body?.seed ?? body?.sampling_seed ?? body?.sampling_params?.sampling_seed ?? null;
}

async function bytesOf(message: IncomingMessage): Promise<Buffer> {
  const chunks: Buffer[] = [];
  for await (const chunk of message) chunks.push(chunk as Buffer);
  return Buffer.concat(chunks);
}

/** Stands between a gateway and a scripted policy, and does to each try of a call what `choose` says. */
export class UnrulyWire implements AsyncDisposable {
  readonly exchanges: Exchange[] = [];
  readonly #policy: ScriptedPolicy;
  readonly #state: MovingState;
  readonly #choose: (seed: number, attempt: number) => WireFault;
  readonly #questionsRefused: number;
  readonly #agent = new Agent({ keepAlive: true });
  readonly #server = createServer((request, response) => {
    void this.#handle(request, response).catch(() => response.destroy());
  });
  readonly #open = new Set<ServerResponse>();
  readonly #pauses = new Set<Promise<void>>();
  #turn: Promise<unknown> = Promise.resolve();
  #count = 0;
  #questions = 0;

  private constructor(
    policy: ScriptedPolicy,
    state: MovingState,
    choose: (seed: number, attempt: number) => WireFault,
    questionsRefused: number,
  ) {
    this.#questionsRefused = questionsRefused;
    this.#policy = policy;
    this.#state = state;
    this.#choose = choose;
  }

  /** `questionsRefused`: of all that is no call every so many-th is refused; 0: none. */
  static async start(
    policy: ScriptedPolicy,
    state: MovingState,
    choose: (seed: number, attempt: number) => WireFault,
    questionsRefused: number,
  ): Promise<UnrulyWire> {
    const wire = new UnrulyWire(policy, state, choose, questionsRefused);
    await new Promise<void>((resolve) => wire.#server.listen(0, '127.0.0.1', resolve));
    return wire;
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  /** Calls and questions of the gateway that are still open. */
  get open(): number {
    return this.#open.size;
  }

  async #handle(request: IncomingMessage, response: ServerResponse): Promise<void> {
    this.#open.add(response);
    response.on('error', () => {});
    response.once('close', () => this.#open.delete(response));
    const body = await bytesOf(request);
    const parsed: Loose = body.length === 0 ? null : JSON.parse(body.toString());
    const seed = seedOf(parsed);
    if (!samplingRoutes.has(request.url ?? '') || seed === null) {
      if (this.#questionsRefused > 0 && ++this.#questions % this.#questionsRefused === 0) {
        response.writeHead(503, { 'retry-after': '0.01' });
        response.end();
        return;
      }
      // In turn too: a question that samples a token would take the fault of a call beside it.
      const reply = await this.#inTurn(() => this.#forward(request, body, 'question'));
      response.writeHead(reply.status, reply.headers);
      response.end(reply.bytes);
      return;
    }
    const attempt = this.exchanges.filter((each) => each.seed === seed).length;
    const fault = this.#choose(seed, attempt);
    const id = typeof parsed.rid === 'string' ? parsed.rid : `exchange-${this.#count++}`;
    const exchange: Exchange = { seed, id, fault, passed: false, changed: 'no' };
    this.exchanges.push(exchange);
    await this.#serve(request, response, body, exchange);
  }

  async #serve(
    request: IncomingMessage,
    response: ServerResponse,
    body: Buffer,
    exchange: Exchange,
  ): Promise<void> {
    const { fault } = exchange;
    if (fault.kind === 'mute') return;
    if (fault.kind === 'status') {
      response.writeHead(fault.status, { 'content-type': 'application/json', 'retry-after': '0.01' });
      response.end('{"error":{"message":"not now"}}');
      return;
    }
    if (fault.kind === 'hang') {
      await sleep(fault.ms);
      response.destroy();
      return;
    }
    const reply = await this.#inTurn(() => {
      if (fault.kind === 'policy') this.#policy.fault(fault.fault);
      return this.#forward(request, body, exchange.id);
    });
    if (fault.kind === 'version') exchange.changed = this.#change(fault.pause);
    const { bytes } = reply;
    const at = fault.kind === 'cut' || fault.kind === 'late' ? Math.floor(bytes.length * fault.part) : 0;
    response.writeHead(reply.status, reply.headers);
    response.write(bytes.subarray(0, at));
    if (fault.kind === 'cut') {
      // A stream that has said its end may be cut behind it.
      exchange.passed = bytes.subarray(0, at).includes('data: [DONE]\n\n');
      await new Promise((resolve) => response.write('', resolve));
      response.destroy();
      return;
    }
    if (fault.kind === 'late') await sleep(fault.ms);
    if (response.destroyed) return;
    exchange.passed = reply.status === 200 && reply.whole;
    if (reply.whole) response.end(bytes.subarray(at));
    else response.destroy();
  }

  /** The policy takes its faults call by call: one call at a time reaches it. */
  #inTurn<T>(work: () => Promise<T>): Promise<T> {
    const next = this.#turn.then(work, work);
    this.#turn = next.catch(() => undefined);
    return next;
  }

  #change(pause: 'none' | 'drain' | 'abort'): Exchange['changed'] {
    if (pause === 'none') {
      // Another call's pause may be on.
      const changed = this.#state.paused() ? 'paused' : 'unpaused';
      this.#state.setVersion();
      return changed;
    }
    this.#state.pause(pause === 'abort');
    this.#state.setVersion();
    const resumed = sleep(150).then(() => {
      this.#state.resume();
      this.#pauses.delete(resumed);
    });
    this.#pauses.add(resumed);
    return 'paused';
  }

  async #forward(
    request: IncomingMessage,
    body: Buffer,
    id: string,
  ): Promise<{ status: number; headers: Record<string, string>; bytes: Buffer; whole: boolean }> {
    const { port } = this.#policy;
    return new Promise((resolve, reject) => {
      const sent = send(
        {
          port,
          host: '127.0.0.1',
          agent: this.#agent,
          method: request.method,
          path: request.url,
          headers: { 'content-type': 'application/json', 'content-length': body.length, 'x-request-id': id },
        },
        (reply) => {
          const chunks: Buffer[] = [];
          const done = (whole: boolean): void =>
            resolve({
              status: reply.statusCode ?? 500,
              headers: { 'content-type': reply.headers['content-type'] ?? 'application/json' },
              bytes: Buffer.concat(chunks),
              whole,
            });
          reply.on('data', (chunk: Buffer) => chunks.push(chunk));
          reply.on('end', () => done(reply.complete));
          reply.on('error', () => done(false));
        },
      );
      sent.on('error', reject);
      sent.end(body);
    });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all(this.#pauses);
    this.#agent.destroy();
    const closed = new Promise((resolve) => this.#server.close(resolve));
    this.#server.closeAllConnections();
    await closed;
  }
}
