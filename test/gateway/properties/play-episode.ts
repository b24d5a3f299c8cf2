import type { GatewaySession } from '../../../src/gateway/session.ts';
import { cliHeaders, echo, readStream, reminded, type Heard } from '../support/cli-agent.ts';
import { events, post } from '../support/open-gateway.ts';
import type { Loose } from '../support/fake-vllm.ts';
import type { EpisodePlan, Step } from './episode-plans.ts';

/** A request as its agent meant it. Named by a mark in its newest message, which the policy's log then shows. */
export interface Asked {
  readonly mark: number;
  readonly agent: number;
  /** The request whose answer is the last turn of an unchanged history; null: there is none. */
  readonly after: number | null;
  /** An answer before cannot come back as it was sampled where the prompt is text: broken JSON, or nothing at all. */
  readonly lossy: boolean;
}

export interface Played {
  readonly asked: readonly Asked[];
  /** Answers that clients have to the last byte. */
  readonly heard: number;
}

interface History {
  readonly messages: readonly Loose[];
  /** Ids of calls that have no result yet. */
  readonly open: readonly string[];
  readonly after: number | null;
  readonly lossy: boolean;
}

const tool = { name: 'Bash', input_schema: { type: 'object' } };
const openaiTool = { type: 'function', function: { name: 'Bash', parameters: { type: 'object' } } };

/** Marks are told from one another by both ends: `#n1.` is no part of `#n12.`. */
const markOf = (mark: number): string => `#n${mark}.`;

/** The last mark in a prompt's text. */
export function lastMark(text: string): number | null {
  const found = [...text.matchAll(/#n(\d+)\./g)].at(-1)?.[1];
  return found === undefined ? null : Number(found);
}

/** Plays an episode's clients against a gateway, until their steps are done or the session ends. */
export class EpisodePlayer {
  readonly #session: GatewaySession;
  readonly #plan: EpisodePlan;
  readonly #asked: Asked[] = [];
  readonly #agents: Agent[];
  #heard = 0;

  constructor(session: GatewaySession, plan: EpisodePlan) {
    this.#session = session;
    this.#plan = plan;
    this.#agents = [0, 1, 2, 3].map((number) => new Agent(number));
  }

  async play(): Promise<Played> {
    const busy = this.#agents.map(() => Promise.resolve());
    // The agent's own client is the one that calls first.
    await this.#step({ agent: 0, act: 'ask', ms: 0, pick: 0, beside: false });
    for (const [at, step] of this.#plan.steps.entries()) {
      if (at === this.#plan.endsAt) void this.#session.finish();
      busy[step.agent] = busy[step.agent]!.then(() => this.#step(step));
      if (!step.beside) await Promise.all(busy);
    }
    await Promise.all(busy);
    return { asked: this.#asked, heard: this.#heard };
  }

  async #step(step: Step): Promise<void> {
    const agent = this.#agents[step.agent]!;
    if (step.act === 'rewrite') agent.rewrite(step.pick);
    if (step.act === 'back') agent.back(step.pick);
    if (step.act === 'compact') agent.compact();
    const repeats = step.act === 'again' && agent.sent !== null;
    if (!repeats) this.#asked.push(agent.ask(this.#asked.length, this.#plan.dialect));
    const { mark } = this.#asked.at(-1)!;
    const from = agent.sent!;
    const given = repeats ? agent.mark : mark;
    if (step.act === 'leave' || step.act === 'leave and return') {
      const left = await this.#send(step.agent, from, AbortSignal.timeout(step.ms));
      if (left !== null) agent.take(left, from, given, this.#plan.dialect);
      else if (step.act === 'leave and return') await this.#hear(agent, step.agent, from, given);
      return;
    }
    if (step.act === 'several' && this.#plan.dialect === 'openai') {
      const all = await Promise.all([1, 2, 3].map(() => this.#send(step.agent, from)));
      const heard = all.filter((each) => each !== null);
      const best = heard[step.pick % Math.max(1, heard.length)];
      if (best !== undefined) agent.take(best, from, given, this.#plan.dialect);
      return;
    }
    await this.#hear(agent, step.agent, from, given);
  }

  async #hear(agent: Agent, number: number, from: History, mark: number): Promise<void> {
    const heard = await this.#send(number, from);
    if (heard !== null) agent.take(heard, from, mark, this.#plan.dialect);
  }

  /** The answer; null when there was none, or only a part of one. */
  async #send(agent: number, { messages }: History, signal?: AbortSignal): Promise<Heard | null> {
    const { dialect, stream, maxTokens } = this.#plan;
    const options = { headers: headersOf(agent, dialect), ...(signal === undefined ? {} : { signal }) };
    const common = { model: 'm', max_tokens: maxTokens, stream, messages };
    try {
      const response =
        dialect === 'cli'
          ? await post(
              this.#session,
              '/v1/messages?beta=true',
              { ...common, system: 'You work.', tools: [tool] },
              options,
            )
          : await post(this.#session, '/v1/chat/completions', { ...common, tools: [openaiTool] }, options);
      const text = await response.text();
      if (response.status !== 200) return null;
      const heard = dialect === 'cli' ? hearAnthropic(text, stream) : hearOpenai(text, stream);
      if (heard !== null) this.#heard++;
      return heard;
    } catch {
      return null;
    }
  }
}

function headersOf(agent: number, dialect: EpisodePlan['dialect']): Record<string, string> {
  if (agent === 3) return { 'user-agent': 'curl/8' };
  const id = ['', 'a1', 'b2'][agent]!;
  if (dialect === 'cli') return id === '' ? cliHeaders() : cliHeaders('subagent', id);
  return { 'user-agent': 'agent/1', ...(id === '' ? {} : { 'x-claude-code-agent-id': id }) };
}

function hearAnthropic(text: string, stream: boolean): Heard | null {
  if (stream) {
    if (!text.includes('event: message_stop')) return null;
    return { status: 200, ...readStream(text) };
  }
  const { content, stop_reason: stop } = JSON.parse(text);
  return { status: 200, blocks: content, stop };
}

function hearOpenai(text: string, stream: boolean): Heard | null {
  if (!stream) return { status: 200, blocks: [JSON.parse(text).choices[0].message], stop: null };
  const chunks = events(text).map(({ data }) => data);
  if (chunks.some((chunk) => chunk.error !== undefined) || chunks.at(-1) !== '[DONE]') return null;
  const message: Loose = { role: 'assistant', content: '' };
  for (const delta of chunks.flatMap((chunk) => chunk.choices ?? []).map((choice: Loose) => choice.delta)) {
    message.content += delta.content ?? '';
    for (const call of delta.tool_calls ?? []) {
      message.tool_calls ??= [];
      const open = (message.tool_calls[call.index] ??= {
        id: '',
        type: 'function',
        function: { name: '', arguments: '' },
      });
      open.id += call.id ?? '';
      open.function.name += call.function?.name ?? '';
      open.function.arguments += call.function?.arguments ?? '';
    }
  }
  return { status: 200, blocks: [message], stop: null };
}

/** One client's history, and where it came from. */
class Agent {
  readonly #number: number;
  #now: History = { messages: [], open: [], after: null, lossy: false };
  readonly #past: History[] = [];
  /** What it sent last, and under which mark. */
  sent: History | null = null;
  mark = -1;

  constructor(number: number) {
    this.#number = number;
  }

  /** Says something new; that is what it sends now. */
  ask(mark: number, dialect: EpisodePlan['dialect']): Asked {
    const { messages, open, after, lossy } = this.#now;
    const text = messages.length === 0 ? `Task ${markOf(mark)}` : `go on ${markOf(mark)}`;
    const results = (content: string): Loose[] =>
      dialect === 'cli'
        ? [{ role: 'user', content: open.map((id) => ({ type: 'tool_result', tool_use_id: id, content })) }]
        : open.map((id) => ({ role: 'tool', tool_call_id: id, content }));
    const added = open.length > 0 ? results(`ok ${markOf(mark)}`) : [{ role: 'user', content: text }];
    this.#now = { ...this.#now, messages: [...messages, ...added], open: [] };
    this.sent = this.#now;
    this.mark = mark;
    return { mark, agent: this.#number, after, lossy };
  }

  /** Takes in the answer to what it sent as `from`. */
  take(heard: Heard, from: History, mark: number, dialect: EpisodePlan['dialect']): void {
    this.#past.push(this.#now);
    if (dialect === 'openai') {
      const [message] = heard.blocks as [Loose];
      const calls: Loose[] = message.tool_calls ?? [];
      this.#now = {
        messages: [...from.messages, message],
        open: calls.map(({ id }) => id as string),
        after: mark,
        lossy:
          from.lossy ||
          calls.some((call) => !isJson(call.function.arguments)) ||
          (calls.length === 0 && !message.content),
      };
      return;
    }
    const turn = echo(heard);
    if (turn === null) {
      const last = from.messages.at(-1);
      this.#now = {
        ...from,
        messages: [
          ...from.messages.slice(0, -1),
          reminded(last, 'Your previous response had no visible output'),
        ],
      };
      return;
    }
    const calls = heard.blocks.filter((block) => block.type === 'tool_use');
    this.#now = {
      messages: [...from.messages, turn],
      open: calls.map(({ id }) => id as string),
      after: mark,
      lossy:
        from.lossy ||
        calls.some(({ input }) => (typeof input === 'string' ? !isJson(input) : 'raw' in input)),
    };
  }

  /** Changes one of the messages that stand before its last answer. */
  rewrite(pick: number): void {
    const answered = this.#now.messages.findLastIndex((message: Loose) => message.role === 'assistant');
    const given = this.#now.messages.flatMap((message: Loose, at) =>
      at < answered && message.role === 'user' && typeof message.content === 'string' ? [at] : [],
    );
    const at = given[pick % Math.max(1, given.length)];
    if (at === undefined) return;
    const messages = this.#now.messages.map((message: Loose, index) =>
      index === at ? { ...message, content: `${message.content} (changed)` } : message,
    );
    this.#now = { ...this.#now, messages, after: null };
  }

  back(pick: number): void {
    for (let turns = 0; turns <= pick % 3; turns++) this.#now = this.#past.pop() ?? this.#now;
  }

  compact(): void {
    if (this.#now.messages.length === 0) return;
    this.#now = {
      messages: [{ role: 'user', content: 'A summary of the Task so far.' }],
      open: [],
      after: null,
      lossy: false,
    };
  }
}

function isJson(text: string): boolean {
  try {
    const value: unknown = JSON.parse(text);
    return value !== null && typeof value === 'object' && !Array.isArray(value);
  } catch {
    return false;
  }
}
