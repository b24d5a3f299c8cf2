import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { pino, type Logger } from 'pino';
import { expect } from 'vitest';
import type { CallRecord, Limits, Sequence } from '../../../src/contracts/index.ts';
import type { SessionStats } from '../../../src/gateway/index.ts';
import { parseScripts, startScriptedPolicy, type SampledCall } from '../../../src/policy/index.ts';
import { buildSequences } from '../../../src/trajectory/index.ts';
import { openGateway } from '../../gateway/support/open-gateway.ts';
import { runCli } from '../../gateway/support/run-cli.ts';

/** A way to reach the policy. */
export interface Route {
  readonly engine: 'vllm' | 'sglang';
  readonly streaming?: boolean;
  readonly template: 'plain' | 'hostile';
  /** Whether calls go on from recorded ids. */
  readonly ids?: boolean;
}

export const routes = {
  vllm: { engine: 'vllm', template: 'plain' },
  'vllm streamed': { engine: 'vllm', template: 'plain', streaming: true },
  sglang: { engine: 'sglang', template: 'plain' },
  'vllm hostile': { engine: 'vllm', template: 'hostile' },
  'vllm hostile from ids': { engine: 'vllm', template: 'hostile', ids: true },
  'vllm streamed hostile from ids': { engine: 'vllm', template: 'hostile', streaming: true, ids: true },
  'sglang hostile from ids': { engine: 'sglang', template: 'hostile', ids: true },
} as const satisfies Record<string, Route>;
export type RouteName = keyof typeof routes;

/** What the CLI's user says first. */
export const instruction = 'Please play.';

export interface Play {
  /** The policy's turns by what a user message says: `instruction`, or what a subagent or a nudge is told. */
  readonly turns: Readonly<Record<string, readonly unknown[]>>;
  readonly limits?: Limits;
  /** The probability of a token that is written as a shorter piece. Default: 0.01. */
  readonly splitRate?: number;
  /** The engine's own context. Default: 32768 tokens. */
  readonly maxModelLen?: number;
  /** Tools beside those of an episode. */
  readonly moreTools?: readonly string[];
  /** Files of the working directory to read at the end. */
  readonly files?: readonly string[];
}

/** What became of requests beside calls. */
export interface Asked {
  /** Refused before a call was made of them, and in what words. */
  readonly refused: readonly string[];
  /** Given the call of an earlier one. */
  readonly repeated: number;
}

/** A log that counts the requests which the gateway made no call of. */
export function listenToRequests(): { readonly log: Logger; readonly asked: () => Asked } {
  const lines: { msg: string; why?: string }[] = [];
  const write = (line: string): void => void lines.push(JSON.parse(line) as { msg: string; why?: string });
  return {
    log: pino({ level: 'debug' }, { write }),
    asked: () => ({
      refused: lines.filter(({ msg }) => msg === 'a request was refused').map(({ why }) => why ?? ''),
      repeated: lines.filter(({ msg }) => msg === 'a request was given the call that it repeats').length,
    }),
  };
}

export interface Played {
  readonly code: number | null;
  /** The CLI's last event. */
  readonly result: Readonly<Record<string, unknown>>;
  /** Requests of the CLI that no call was made for. */
  readonly asked: Asked;
  /** Requests that it says it sent again. */
  readonly retries: number;
  readonly records: readonly CallRecord[];
  readonly sequences: readonly Sequence[];
  readonly stats: SessionStats;
  /** What the policy logged that it sampled for the agent, call by call. */
  readonly samples: readonly SampledCall[];
  readonly files: Readonly<Record<string, string>>;
}

const atOnce = 3;
let running = 0;
const waiting: (() => void)[] = [];

/** CLIs cost a second of processor time each: more at once only make each other slow. */
export async function cliPlace(): Promise<Disposable> {
  if (running >= atOnce) await new Promise<void>((resolve) => waiting.push(resolve));
  else running++;
  return {
    [Symbol.dispose]: () => {
      const next = waiting.shift();
      if (next === undefined) running--;
      else next();
    },
  };
}

/** SGLang counts a prompt by one token sampled after it, which no agent is told of. */
const isCount = ({ token_ids, finish_reason }: SampledCall): boolean =>
  token_ids.length === 1 && finish_reason === 'length';

/** Has the real CLI play with a scripted policy behind a gateway of its own; stops all three. */
export async function playCli(play: Play, name: RouteName): Promise<Played> {
  using _place = await cliPlace();
  const { engine, template, streaming = false, ids = false }: Route = routes[name];
  await using policy = await startScriptedPolicy({
    scripts: parseScripts({
      schema: 'rollpool.scripts/1',
      scripts: Object.entries(play.turns).map(([match, turns]) => ({ match, turns })),
    }),
    model: 'policy',
    engine,
    template,
    ...(play.splitRate === undefined ? {} : { splitRate: play.splitRate }),
    ...(play.maxModelLen === undefined ? {} : { maxModelLen: play.maxModelLen }),
  });
  const { log, asked } = listenToRequests();
  await using opened = await openGateway(policy.url, {
    unixSocket: true,
    gateway: { log },
    policy: { engine, streaming, logprobsMode: 'processed', callFormat: ids ? 'hermes' : null },
    ...(play.limits === undefined ? {} : { limits: play.limits }),
  });
  const { session } = opened;
  await using run = await runCli(session, instruction, play.limits, play.moreTools);
  const { code, events, stderr } = await run.ended;
  const result = events.at(-1);
  expect(result, stderr).toMatchObject({ type: 'result' });
  const records = await session.finish();
  const files = await Promise.all(
    (play.files ?? []).map(async (file) => [file, await readFile(join(run.workdir, file), 'utf8')] as const),
  );
  return {
    code,
    result: result!,
    asked: asked(),
    retries: events.filter(({ subtype }) => subtype === 'api_retry').length,
    records,
    sequences: buildSequences(records).sequences,
    stats: session.stats(),
    samples: policy.samples().filter((sample) => engine === 'vllm' || !isCount(sample)),
    files: Object.fromEntries(files),
  };
}

/**
 * That what was recorded is what the policy logged, to the id and the float32, and that every sampled token of it
 * stands in exactly one sequence, behind its own prompt. Under a template that gives no id twice.
 */
export function expectTheSamples({ records, sequences, samples }: Played): void {
  const answered = records.filter(({ fate }) => fate === 'delivered');
  expect(
    answered.map(({ prompt_token_ids, token_ids, logprobs }) => ({
      prompt: Array.from(prompt_token_ids!),
      ids: Array.from(token_ids!),
      logprobs: Array.from(logprobs!),
    })),
  ).toEqual(
    samples.map(({ prompt_token_ids, token_ids, logprobs }) => ({
      prompt: Array.from(prompt_token_ids),
      ids: Array.from(token_ids),
      logprobs: Array.from(logprobs).map(Math.fround),
    })),
  );
  const turns = sequences.flatMap((sequence) => sequence.turns.map((turn) => ({ sequence, turn })));
  expect(turns.map(({ turn }) => turn.call).sort((a, b) => a - b)).toEqual(
    answered.map(({ index }) => index),
  );
  for (const { sequence, turn } of turns) {
    const { prompt_token_ids: prompt, token_ids: ids, logprobs } = records[turn.call]!;
    expect(sequence.token_ids.subarray(0, turn.start)).toEqual(prompt);
    expect(sequence.token_ids.subarray(turn.start, turn.end)).toEqual(ids);
    expect(sequence.logprobs.subarray(turn.start, turn.end)).toEqual(logprobs);
  }
  const sampled = answered.reduce((sum, { token_ids }) => sum + token_ids!.length, 0);
  const masked = sequences.reduce(
    (sum, { loss_mask }) => sum + loss_mask.reduce((ones, bit) => ones + bit, 0),
    0,
  );
  expect(masked).toBe(sampled);
}
