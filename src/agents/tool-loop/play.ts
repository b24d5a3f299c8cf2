import type { ChatMessage } from '../../contracts/index.ts';
import type { Environment } from '../../fleet/environment.ts';
import type { ChatAnswer } from '../../gateway/chat.ts';
import type { AgentContext, AgentOutcome } from '../agent.ts';
import type { Observation, ToolDialect, ToolMode } from './dialect.ts';
import { nativeDialect } from './native-dialect.ts';
import { endingOfRefusal } from './refused-call.ts';
import { systemMessage } from './system-message.ts';
import { textDialect } from './text-dialect.ts';
import { Toolbox } from './toolbox.ts';

type End = Pick<AgentOutcome, 'ending' | 'detail'> & { readonly submitted?: string };

const done: End = { ending: 'agent_done', detail: '' };

/**
 * Milliseconds to wait for tools. Listing them is part of the agent's time, so that it gets half of it at most: an
 * environment without tools must be told as such, before the deadline makes it look like an agent that did nothing.
 */
function listingMs({ boot_seconds, agent_seconds }: AgentContext['limits']): number {
  return Math.ceil(Math.min(boot_seconds, agent_seconds / 2) * 1000);
}

function bringsImage(message: ChatMessage): boolean {
  return (
    message.role === 'user' &&
    typeof message.content !== 'string' &&
    message.content.some((part) => part.type === 'image_url')
  );
}

/** The chat of one episode. Messages are only ever appended, so that every prompt begins with all tokens before it. */
class Conversation {
  readonly #context: AgentContext;
  readonly #dialect: ToolDialect;
  readonly #messages: ChatMessage[];
  /** Messages the policy has taken. */
  #taken = 0;

  constructor(context: AgentContext, dialect: ToolDialect) {
    this.#context = context;
    this.#dialect = dialect;
    this.#messages = [
      { role: 'system', content: systemMessage(context.task, dialect.instructions) },
      { role: 'user', content: context.task.prompt },
    ];
  }

  append(messages: readonly ChatMessage[]): void {
    this.#messages.push(...messages);
  }

  /** The policy's next turn, or how the episode ended instead. */
  async next(): Promise<{ readonly answer: ChatAnswer } | { readonly end: End }> {
    const { session, signal } = this.#context;
    const { tools } = this.#dialect;
    try {
      const answer = await session.chat(
        { messages: this.#messages, ...(tools === null ? {} : { tools }) },
        { agent_id: 'main', role: 'main', signal },
      );
      answer.delivered(true);
      // As the gateway gave it: a message put together anew could be other tokens in the next prompt.
      this.#messages.push(answer.message);
      this.#taken = this.#messages.length;
      return { answer };
    } catch (error) {
      const blameless = this.#taken === 0 || this.#messages.slice(this.#taken).some(bringsImage);
      return { end: endingOfRefusal({ error, session, signal, blameless }) };
    }
  }
}

async function converse(context: AgentContext, toolbox: Toolbox, dialect: ToolDialect): Promise<End> {
  const conversation = new Conversation(context, dialect);
  for (;;) {
    const next = await conversation.next();
    if ('end' in next) return next.end;
    const { answer } = next;
    if (answer.stop === 'refusal') return { ending: 'refusal', detail: '' };
    const turn = dialect.read(answer);
    const observations: Observation[] = [];
    let allValid = true;
    for (const call of turn.calls) {
      context.signal.throwIfAborted();
      const used = await toolbox.call(call);
      if ('submitted' in used) return { ...done, submitted: used.submitted };
      allValid &&= used.valid;
      observations.push({ call, result: used.result });
    }
    if (turn.done && allValid) return done;
    conversation.append(dialect.observe(answer, observations));
  }
}

/** Plays one episode: the policy and the environment's tools in turn, until the policy ends it or a budget does. */
export async function play(
  context: AgentContext,
  environment: Environment,
  mode: ToolMode,
): Promise<AgentOutcome> {
  const { limits, signal, task } = context;
  const listed = await environment.tools({ timeout_ms: listingMs(limits), signal });
  const toolbox = new Toolbox(environment, listed, task.prompt, {
    timeoutMs: Math.ceil(limits.tool_seconds * 1000),
    signal,
  });
  const dialect = (mode === 'native' ? nativeDialect : textDialect)(toolbox.tools, toolbox.submits);
  const { ending, detail, submitted } = await converse(context, toolbox, dialect);
  return {
    ending,
    detail,
    exit_code: null,
    final_answer: submitted ?? null,
    metrics: { ...toolbox.use, submitted: submitted !== undefined },
  };
}
