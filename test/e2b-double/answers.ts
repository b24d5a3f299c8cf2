import type { IncomingMessage, ServerResponse } from 'node:http';

/** An error as the control plane tells it: `{code, message, error_code?}` (facts: E2B 2.2). */
export class ApiError extends Error {
  readonly status: number;
  readonly errorCode: string | undefined;
  readonly headers: Readonly<Record<string, string>>;

  constructor(
    status: number,
    message: string,
    options: { errorCode?: string | undefined; headers?: Readonly<Record<string, string>> } = {},
  ) {
    super(message);
    this.status = status;
    this.errorCode = options.errorCode;
    this.headers = options.headers ?? {};
  }
}

export interface Answer {
  readonly status: number;
  readonly body?: unknown;
  readonly headers?: Readonly<Record<string, string>>;
}

export function sendAnswer(response: ServerResponse, { status, body, headers = {} }: Answer): void {
  if (response.destroyed || response.headersSent) return;
  const text = body === undefined ? '' : JSON.stringify(body);
  response.writeHead(status, {
    ...headers,
    ...(body === undefined ? {} : { 'content-type': 'application/json' }),
    ...(status === 204 ? {} : { 'content-length': Buffer.byteLength(text) }),
  });
  response.end(text);
}

export function sendError(response: ServerResponse, error: unknown): void {
  const known = error instanceof ApiError ? error : new ApiError(500, String(error));
  sendAnswer(response, {
    status: known.status,
    headers: known.headers,
    body: {
      code: known.status,
      message: known.message,
      ...(known.errorCode === undefined ? {} : { error_code: known.errorCode }),
    },
  });
}

export async function readBody(request: IncomingMessage): Promise<Buffer> {
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk as Buffer);
  return Buffer.concat(chunks);
}

export async function readJson(request: IncomingMessage): Promise<Record<string, unknown>> {
  const text = (await readBody(request)).toString();
  if (text === '') return {};
  try {
    return JSON.parse(text) as Record<string, unknown>;
  } catch {
    throw new ApiError(400, 'the body is not JSON');
  }
}
