import type { AssistantMessage, ChatMessage, ToolDefinition } from '../../contracts/index.ts';
import { sameMessage } from './message-equality.ts';

/** The ids of an answered call. A prompt that goes on from it begins with both. */
export interface AnswerIds {
  readonly prompt: Int32Array;
  readonly completion: Int32Array;
  /** Whether the policy ended it itself: its last token is then the end of its turn. */
  readonly ended: boolean;
  /** Whether the engine's own parsers read it, and not ours. */
  readonly readByEngine: boolean;
}

/** An answer that a later request may go on from. */
export interface AnsweredCall {
  readonly ids: AnswerIds;
  readonly answer: AssistantMessage;
  /** Messages of its request and its answer. */
  readonly length: number;
}

class Place {
  /** Messages behind the parent's, the answer as the last of them. */
  readonly own: readonly ChatMessage[];
  readonly call: AnsweredCall | null;
  readonly next: Place[] = [];

  constructor(own: readonly ChatMessage[], call: AnsweredCall | null) {
    this.own = own;
    this.call = call;
  }

  get length(): number {
    return this.call?.length ?? 0;
  }

  /** Whether `messages` go on with what is this place's own, behind the first `from` of them. */
  isIn(messages: readonly ChatMessage[], from: number): boolean {
    return (
      messages.length - from >= this.own.length &&
      // From the end: the answer tells chains apart that begin alike.
      this.own.findLastIndex((message, at) => !sameMessage(message, messages[from + at]!)) === -1
    );
  }
}

/**
 * The answers of an episode's agents by the messages before them, as a tree: a request goes on from the answer with the
 * most messages in front of which the agent changed nothing. Memory grows with new messages only.
 */
export class AnsweredCalls {
  /** By agent and tools: other tools are another prompt from the beginning. */
  readonly #roots = new Map<string, Place>();

  /** The answer that the last messages follow; null when there is none. Among equal ones the latest. */
  before(agentId: string, messages: readonly ChatMessage[], tools: Tools): AnsweredCall | null {
    return this.#place(this.#root(agentId, tools), messages).call;
  }

  /** `messages`: of the request, as it was admitted. */
  add(
    agentId: string,
    messages: readonly ChatMessage[],
    tools: Tools,
    answer: AssistantMessage,
    ids: AnswerIds,
  ): void {
    const parent = this.#place(this.#root(agentId, tools), messages);
    const own = [...messages.slice(parent.length), answer];
    parent.next.unshift(new Place(own, { ids, answer, length: messages.length + 1 }));
  }

  #root(agentId: string, tools: Tools): Place {
    // JSON has no line break of its own.
    const key = `${agentId}\n${toolsText(tools)}`;
    let root = this.#roots.get(key);
    if (root === undefined) this.#roots.set(key, (root = new Place([], null)));
    return root;
  }

  #place(from: Place, messages: readonly ChatMessage[]): Place {
    let best = from;
    for (const next of from.next) {
      if (next.length <= best.length || !next.isIn(messages, from.length)) continue;
      const found = this.#place(next, messages);
      if (found.length > best.length) best = found;
    }
    return best;
  }
}

type Tools = readonly ToolDefinition[] | undefined;

/** A request's tools as text, written once: they are asked for before and after its answer. */
const written = new WeakMap<readonly ToolDefinition[], string>();

function toolsText(tools: Tools): string {
  if (tools === undefined) return '[]';
  let text = written.get(tools);
  if (text === undefined) written.set(tools, (text = JSON.stringify(tools)));
  return text;
}
