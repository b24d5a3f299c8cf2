import type { Agent, AgentContext, AgentOutcome } from './agent.ts';

/**
 * An agent that is a function of this process: it may call `session.chat` and nothing else is started for it. The tool
 * loop is one; tests and benches inject their own through the library.
 *
 * When the signal aborts, `run` rejects with its reason at once, also if the function does not listen.
 */
export function createInProcessAgent(
  act: (context: AgentContext) => Promise<AgentOutcome>,
  name = 'in-process',
): Agent {
  return {
    name,
    async run(context) {
      const { signal } = context;
      signal.throwIfAborted();
      let onAbort = (): void => {};
      const aborted = new Promise<never>((_resolve, reject) => {
        onAbort = () => reject(signal.reason as Error);
        signal.addEventListener('abort', onAbort, { once: true });
      });
      try {
        return await Promise.race([act(context), aborted]);
      } finally {
        signal.removeEventListener('abort', onAbort);
      }
    },
  };
}

/** The outcome of an agent that ended by itself. */
export function agentDone(
  finalAnswer: string | null = null,
  metrics: AgentOutcome['metrics'] = {},
): AgentOutcome {
  return { ending: 'agent_done', exit_code: null, detail: '', final_answer: finalAnswer, metrics };
}
