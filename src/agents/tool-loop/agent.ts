import { EpisodeError } from '../../contracts/index.ts';
import type { Agent } from '../agent.ts';
import { createInProcessAgent } from '../in-process.ts';
import type { ToolMode } from './dialect.ts';
import { play } from './play.ts';

export interface ToolLoopAgentOptions {
  readonly toolMode: ToolMode;
}

/**
 * The agent of Fleet tasks: a loop in this process in which the policy calls the environment's tools. Invalid calls and
 * tools that fail are told to the policy and never end an episode; an environment that is gone does (infra). Only
 * `submit_final_answer` sets the outcome's `final_answer`, as with the vendor: other ends hand the verifier none.
 */
export function createToolLoopAgent({ toolMode }: ToolLoopAgentOptions): Agent {
  return createInProcessAgent(async (context) => {
    const { environment } = context;
    if (environment === null) {
      throw new EpisodeError({
        class: 'infra',
        phase: 'agent',
        code: 'internal_error',
        message: 'the tool loop was started without an environment',
      });
    }
    return play(context, environment, toolMode);
  }, 'tool-loop');
}
