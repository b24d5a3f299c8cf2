import type { CallFate, EffectiveLimits } from '../../contracts/index.ts';
import { ChatError } from '../chat.ts';
import { EngineError } from '../engines/engine-error.ts';
import { DeadlinePassed } from './call-clock.ts';
import { AnswerCut } from './told-answer.ts';

/** The reason with which a session ends its calls. */
export class SessionClosed extends Error {}

/** What an error means for the call, for the session, and in words that a dialect can translate. */
export interface CallFailure {
  readonly fate: Extract<CallFate, 'failed' | 'aborted'>;
  readonly overflow?: boolean;
  /** The policy failed past its deadlines: the episode is infra. */
  readonly infra?: { readonly code: string; readonly message: string };
  readonly told: unknown;
}

function infra(code: string, message: string, cause: unknown): CallFailure {
  const told = new ChatError('policy_unavailable', message, { cause });
  return { fate: 'failed', infra: { code, message }, told };
}

function deadline(error: DeadlinePassed, limits: EffectiveLimits, lastError: string | null): CallFailure {
  const last = lastError === null ? '' : `; last: ${lastError}`;
  return error.deadline === 'turn'
    ? infra('policy_turn_deadline', `the policy gave no answer within ${limits.turn_seconds} s${last}`, error)
    : infra(
        'policy_hold_deadline',
        `the policy was paused, out of reach or full for ${limits.hold_seconds} s${last}`,
        error,
      );
}

function engine(error: EngineError): CallFailure {
  // A key or route that the policy does not take is ours to mend: the agent is not told its status.
  if (error.fault === 'misconfigured') return infra('policy_misconfigured', error.message, error);
  const overflow = error.fault === 'overflow';
  const told = new ChatError(overflow ? 'context_overflow' : 'policy_error', error.message, {
    cause: error,
    ...(error.status === undefined ? {} : { status: error.status }),
    ...(error.tokens === undefined ? {} : { tokens: error.tokens }),
  });
  return { fate: 'failed', overflow, told };
}

export function callFailure(error: unknown, limits: EffectiveLimits, lastError: string | null): CallFailure {
  if (error instanceof DeadlinePassed) return deadline(error, limits, lastError);
  if (error instanceof EngineError) return engine(error);
  // Agents take such an error for the end of their run (facts: claude-code 5): the failure is ours, not theirs.
  if (error instanceof AnswerCut) return infra('policy_answer_cut', error.message, error);
  if (error instanceof ChatError) {
    return { fate: 'failed', overflow: error.code === 'context_overflow', told: error };
  }
  const closed = error instanceof SessionClosed;
  return { fate: 'aborted', told: closed ? new ChatError('closed', 'this episode has ended') : error };
}
