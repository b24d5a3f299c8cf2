import { EpisodeError } from '../../contracts/index.ts';
import { ChatError } from '../../gateway/chat.ts';
import type { GatewaySession } from '../../gateway/session.ts';
import type { AgentOutcome } from '../agent.ts';

export interface RefusedCall {
  readonly error: unknown;
  readonly session: Pick<GatewaySession, 'failed'>;
  readonly signal: AbortSignal;
  /** The request had nothing of the policy's making that an earlier one had not, or the first image of the episode. */
  readonly blameless: boolean;
}

function ours(code: string, cause: ChatError, retryable: boolean): EpisodeError {
  return new EpisodeError(
    { class: 'infra', phase: 'agent', code, message: cause.message, retryable },
    { cause },
  );
}

/**
 * How an episode ends whose model call was refused. Budgets end it with the state it has reached; a failure of the policy's
 * server, or the signal's reason, is thrown.
 */
export function endingOfRefusal({
  error,
  session,
  signal,
  blameless,
}: RefusedCall): Pick<AgentOutcome, 'ending' | 'detail'> {
  signal.throwIfAborted();
  if (!(error instanceof ChatError)) throw error;
  const detail = error.message;
  switch (error.code) {
    case 'turn_budget':
      return { ending: 'max_turns', detail };
    case 'token_budget':
      return { ending: 'max_tokens', detail };
    case 'context_overflow':
      return { ending: 'context_overflow', detail };
    case 'time_budget':
      // The gateway's own account of its budgets makes this a timeout.
      return { ending: 'agent_error', detail };
    case 'policy_error':
      // What the engine refuses before the policy had a say is no doing of the policy's: tools or images it does not take.
      if (blameless) throw ours('policy_rejected', error, false);
      return { ending: 'agent_error', detail };
    case 'policy_unavailable':
      throw session.failed.aborted ? session.failed.reason : ours('policy_unavailable', error, true);
    case 'closed':
      throw ours('session_closed', error, true);
    case 'bad_request':
      throw ours('internal_error', error, true);
  }
}
