import type { AssistantMessage, ChatMessage } from '../../contracts/index.ts';
import { sameMessage } from './message-equality.ts';

/** The tokens of a beginning of a request, as the engine counted them. */
export interface CountedPrefix {
  /** Messages. */
  readonly length: number;
  readonly tokens: number;
}

interface AgentHistory {
  counted: CountedPrefix;
  /** The last call's messages and its answer. */
  last: readonly ChatMessage[];
  /** Recorded answers without tool calls, by the number of messages before them. */
  readonly texts: Map<number, AssistantMessage[]>;
}

const nothingCounted: CountedPrefix = { length: 0, tokens: 0 };

function sameText(a: AssistantMessage, b: AssistantMessage): boolean {
  return (a.content ?? '').trim() === (b.content ?? '').trim();
}

/**
 * What an episode's agents have said and been told, in the middle form. An agent's echo of its own turn is not what
 * was sampled (the CLI reorders keys, injects defaults, strips whitespace): `admit` puts the recorded turn back.
 * Messages are shared between calls, so that an episode's memory grows with its new messages only.
 */
export class Conversation {
  readonly #agents = new Map<string, AgentHistory>();
  readonly #turns = new Map<string, AssistantMessage>();
  readonly #upstreamIds = new Map<string, string>();

  #agent(id: string): AgentHistory {
    let agent = this.#agents.get(id);
    if (agent === undefined)
      this.#agents.set(id, (agent = { last: [], texts: new Map(), counted: nothingCounted }));
    return agent;
  }

  /** The id under which the engine named a tool call; an id that we did not give stands for itself. */
  readonly upstreamId = (id: string): string => this.#upstreamIds.get(id) ?? id;

  /** A request's messages with recorded turns restored, and those of them that the agent's last call did not have. */
  admit(
    agentId: string,
    messages: readonly ChatMessage[],
  ): {
    readonly messages: readonly ChatMessage[];
    readonly fresh: readonly ChatMessage[];
    readonly counted: CountedPrefix;
  } {
    const agent = this.#agent(agentId);
    let shared = 0;
    let matching = true;
    const admitted = this.restore(agentId, messages).map((restored, position) => {
      const known = matching ? agent.last[position] : undefined;
      if (known === undefined || !sameMessage(known, restored)) {
        matching = false;
        return restored;
      }
      shared++;
      return known;
    });
    agent.last = admitted;
    const counted = shared >= agent.counted.length ? agent.counted : nothingCounted;
    return { messages: admitted, fresh: admitted.slice(shared), counted };
  }

  /** A request's messages with recorded turns restored, without keeping anything. */
  restore(agentId: string, messages: readonly ChatMessage[]): readonly ChatMessage[] {
    const agent = this.#agent(agentId);
    return messages.map((message, position) =>
      message.role === 'assistant' ? this.#restore(agent, message, position) : message,
    );
  }

  /** Keeps an answer to a call whose request had `messages`; `ids` are the engine's ids of its tool calls, in order; `tokens` its prompt and completion. */
  record(
    agentId: string,
    messages: readonly ChatMessage[],
    answer: AssistantMessage,
    ids: readonly string[],
    tokens: number,
  ): void {
    const agent = this.#agent(agentId);
    agent.last = [...messages, answer];
    if (tokens > 0) agent.counted = { length: agent.last.length, tokens };
    for (const [index, call] of (answer.tool_calls ?? []).entries()) {
      this.#turns.set(call.id, answer);
      const upstream = ids[index];
      if (upstream) this.#upstreamIds.set(call.id, upstream);
    }
    if (answer.tool_calls === undefined) {
      const turns = agent.texts.get(messages.length) ?? [];
      agent.texts.set(messages.length, [answer, ...turns]);
    }
  }

  #restore(agent: AgentHistory, echo: AssistantMessage, position: number): AssistantMessage {
    if (echo.tool_calls === undefined || echo.tool_calls.length === 0) {
      return agent.texts.get(position)?.find((turn) => sameText(turn, echo)) ?? echo;
    }
    const turn = this.#turns.get(echo.tool_calls[0]!.id);
    if (
      turn?.tool_calls?.length === echo.tool_calls.length &&
      turn.tool_calls.every((call, index) => call.id === echo.tool_calls?.[index]?.id) &&
      sameText(turn, echo)
    ) {
      return turn;
    }
    // The agent rewrote the turn: what it left of our tool calls keeps the sampled argument strings.
    const calls = echo.tool_calls.map(
      (call) => this.#turns.get(call.id)?.tool_calls?.find(({ id }) => id === call.id) ?? call,
    );
    return { ...echo, tool_calls: calls };
  }
}
