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
  /** CPU milliseconds that its process has used so far, its garbage collector's included. */
  readonly cpuMs: () => Promise<number>;
  readonly pool: Pool;
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: (call: number) => Buffer;
}

export interface Service extends AsyncDisposable {
  readonly child: ChildProcess;
  readonly url: string;
  /** As the process itself counts it, to the microsecond. */
  readonly cpuMs: () => Promise<number>;
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
  const child = fork(new URL(module, import.meta.url), args, {
    execArgv: [...process.execArgv, '--expose-gc'],
  });
  const { url } = await heard<{ url: string }>(child);
  return {
    child,
    url,
    async cpuMs() {
      child.send({ cpu: true });
      return (await heard<{ cpuMs: number }>(child)).cpuMs;
    },
    async [Symbol.asyncDispose]() {
      const ended = new Promise((resolve) => child.once('exit', resolve));
      child.disconnect();
      await ended;
    },
  };
}

/** What a process of the bench answers when it is asked for its CPU time. */
export function tellCpu(): void {
  const { user, system } = process.cpuUsage();
  process.send?.({ cpuMs: (user + system) / 1000 });
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
  const before = await target.cpuMs();
  let left = count;
  const client = async (): Promise<void> => {
    while (left-- > 0) await call(target, ++calls);
  };
  await Promise.all(Array.from({ length: atOnce }, client));
  return ((await target.cpuMs()) - before) / count;
}

/**
 * CPU milliseconds a call of two targets, asked in turn in one run: whatever else the machine does meets both. Each round
 * gives a pair, and begins with the other one.
 */
export async function pairs(
  rounds: number,
  count: number,
  first: () => Target | Promise<Target>,
  second: () => Target | Promise<Target>,
): Promise<{ first: number; second: number }[]> {
  const taken: { first: number; second: number }[] = [];
  for (let round = 0; round < rounds; round++) {
    const pair = { first: 0, second: 0 };
    for (const which of round % 2 === 0 ? (['first', 'second'] as const) : (['second', 'first'] as const)) {
      pair[which] = await burst(await (which === 'first' ? first() : second()), count, 4);
    }
    taken.push(pair);
  }
  return taken;
}

/** Calls one after the other for some seconds, some at once. Resolves with calls a second of CPU. */
export async function callsPerCore(target: Target, seconds: number, atOnce: number): Promise<number> {
  const before = await target.cpuMs();
  const until = performance.now() + seconds * 1000;
  let done = 0;
  const client = async (): Promise<void> => {
    while (performance.now() < until) {
      await call(target, ++calls);
      done++;
    }
  };
  await Promise.all(Array.from({ length: atOnce }, client));
  return (done * 1000) / ((await target.cpuMs()) - before);
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
