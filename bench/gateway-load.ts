// Clients and measures of bench/gateway.
import { fork, type ChildProcess } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Pool } from 'undici';

export function quantile(values: readonly number[], part: number): number {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * part))] ?? NaN;
}

export const median = (values: readonly number[]): number => quantile(values, 0.5);

/** Somebody who answers, and how to ask. */
export interface Target {
  readonly name: string;
  readonly pid: number;
  readonly pool: Pool;
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: (call: number) => Buffer;
}

export interface Service extends AsyncDisposable {
  readonly child: ChildProcess;
  readonly url: string;
}

/** The next message of a child. */
export async function heard<T>(child: ChildProcess): Promise<T> {
  return new Promise((resolve, reject) => {
    const gone = (code: number | null): void =>
      reject(new Error(`a process of the bench ended with ${code}`));
    child.once('exit', gone);
    child.once('message', (message) => {
      child.off('exit', gone);
      resolve(message as T);
    });
  });
}

/** Starts a module of the bench in a process of its own. */
export async function start(module: string, ...args: string[]): Promise<Service> {
  const child = fork(new URL(module, import.meta.url), args);
  const { url } = await heard<{ url: string }>(child);
  return {
    child,
    url,
    async [Symbol.asyncDispose]() {
      const ended = new Promise((resolve) => child.once('exit', resolve));
      child.disconnect();
      await ended;
    },
  };
}

/** CPU seconds that a process and its children have used; Linux counts in hundredths. */
export function cpuSeconds(pid: number): number {
  try {
    const fields = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1]!.split(' ');
    const children = readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').split(' ').filter(Boolean);
    const own = (Number(fields[11]) + Number(fields[12])) / 100;
    return children.reduce((sum, child) => sum + cpuSeconds(Number(child)), own);
  } catch {
    return 0; // It ended meanwhile.
  }
}

/** One call. Resolves with milliseconds to the first byte of the answer's body and to its end. */
export async function call(
  target: Target,
  number: number,
): Promise<{ first: number; end: number; events: number }> {
  const startedAt = performance.now();
  const { statusCode, body } = await target.pool.request({
    method: 'POST',
    path: target.path,
    headers: target.headers,
    body: target.body(number),
  });
  let first = 0;
  let events = 0;
  let text = '';
  for await (const chunk of body as AsyncIterable<Buffer>) {
    if (first === 0) first = performance.now() - startedAt;
    if (statusCode !== 200) text += chunk.toString();
    for (let at = chunk.indexOf('data: '); at >= 0; at = chunk.indexOf('data: ', at + 6)) events++;
  }
  if (statusCode !== 200) throw new Error(`${target.name} answered ${statusCode}: ${text.slice(0, 300)}`);
  return { first, end: performance.now() - startedAt, events };
}

let calls = 0;

/** `count` calls, some at once. Resolves with CPU milliseconds a call. */
export async function burst(target: Target, count: number, atOnce: number): Promise<number> {
  const before = cpuSeconds(target.pid);
  let left = count;
  const client = async (): Promise<void> => {
    while (left-- > 0) await call(target, ++calls);
  };
  await Promise.all(Array.from({ length: atOnce }, client));
  return ((cpuSeconds(target.pid) - before) * 1000) / count;
}

/** Calls one after the other for some seconds, some at once. Resolves with calls a second of CPU. */
export async function callsPerCore(target: Target, seconds: number, atOnce: number): Promise<number> {
  const before = cpuSeconds(target.pid);
  const until = performance.now() + seconds * 1000;
  let done = 0;
  const client = async (): Promise<void> => {
    while (performance.now() < until) {
      await call(target, ++calls);
      done++;
    }
  };
  await Promise.all(Array.from({ length: atOnce }, client));
  return done / (cpuSeconds(target.pid) - before);
}

/** Calls at a steady rate, whether or not those before are answered. Resolves with the time of each. */
export async function steady(
  target: Target,
  perSecond: number,
  count: number,
): Promise<{ first: number; end: number }[]> {
  const made: Promise<{ first: number; end: number }>[] = [];
  const startedAt = performance.now();
  for (let number = 0; number < count; number++) {
    await sleep(Math.max(0, startedAt + (number * 1000) / perSecond - performance.now()));
    made.push(call(target, ++calls));
  }
  return Promise.all(made);
}
