import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import {
  resolveLimits,
  resolveSampling,
  type Limits,
  type SamplingOverrides,
} from '../../../src/contracts/index.ts';
import { createGateway, type Gateway, type GatewayOptions } from '../../../src/gateway/gateway.ts';
import type { GatewaySession } from '../../../src/gateway/session.ts';
import type { Loose } from './fake-vllm.ts';
import { silentLogger } from '../../../src/observe/index.ts';

export interface Opened extends AsyncDisposable {
  readonly gateway: Gateway;
  readonly session: GatewaySession;
  readonly runtimeDir: string;
  open(limits?: Limits & { hold_seconds?: number }, sampling?: SamplingOverrides): Promise<GatewaySession>;
}

let nonces = 0;

/** A gateway and one session before the given policy. */
export async function openGateway(
  url: string | readonly string[],
  options: {
    gateway?: Partial<GatewayOptions>;
    policy?: Partial<GatewayOptions['policy']>;
    limits?: Limits & { hold_seconds?: number };
    sampling?: SamplingOverrides;
    unixSocket?: boolean;
  } = {},
): Promise<Opened> {
  const runtimeDir = await mkdtemp(join(tmpdir(), `rp-gwt-${process.pid}-`));
  const gateway = await createGateway({
    policy: { urls: typeof url === 'string' ? [url] : url, model: 'policy', ...options.policy },
    runtimeDir,
    log: silentLogger,
    graceSeconds: 0.2,
    ...options.gateway,
  });
  const open: Opened['open'] = (limits = options.limits, sampling = options.sampling) =>
    gateway.open({
      episode_id: `episode-${++nonces}`,
      attempt: 1,
      nonce: `nonce-${nonces}`,
      sampling: resolveSampling(sampling),
      limits: resolveLimits(limits ?? {}),
      unix_socket: options.unixSocket ?? false,
    });
  const session = await open();
  return {
    gateway,
    session,
    runtimeDir,
    open,
    async [Symbol.asyncDispose]() {
      await gateway[Symbol.asyncDispose]();
      await rm(runtimeDir, { recursive: true, force: true });
    },
  };
}

/** Posts JSON with the session's bearer. */
export async function post(
  session: GatewaySession,
  path: string,
  body: unknown,
  options: { headers?: Record<string, string>; signal?: AbortSignal } = {},
): Promise<Response> {
  return fetch(`${session.url}${path}`, {
    method: 'POST',
    headers: {
      'content-type': 'application/json',
      authorization: `Bearer ${session.bearer}`,
      ...options.headers,
    },
    body: typeof body === 'string' ? body : JSON.stringify(body),
    ...(options.signal === undefined ? {} : { signal: options.signal }),
  });
}

/** Anthropic Messages with defaults; messages may be one user text. */
export async function messages(
  session: GatewaySession,
  content: string | readonly unknown[],
  rest: Record<string, unknown> = {},
  options: { headers?: Record<string, string>; signal?: AbortSignal } = {},
): Promise<Response> {
  const list = typeof content === 'string' ? [{ role: 'user', content }] : content;
  return post(
    session,
    '/v1/messages?beta=true',
    { model: 'm', max_tokens: 100, messages: list, ...rest },
    options,
  );
}

export interface Event {
  readonly event: string;
  readonly data: Loose;
}

/** Server-sent events of a body. */
export function events(text: string): Event[] {
  return text
    .split('\n\n')
    .filter((block) => block.includes('data:'))
    .map((block) => {
      const event = /^event: (.*)$/m.exec(block)?.[1] ?? '';
      const data = /^data: (.*)$/m.exec(block)![1]!;
      return { event, data: data === '[DONE]' ? data : JSON.parse(data) };
    });
}
