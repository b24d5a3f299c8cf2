import type { EffectiveLimits } from '../../contracts/index.ts';
import { ChatError, type ChatCaller } from '../chat.ts';
import type { BudgetStop } from '../session.ts';

/** What an episode has used so far. */
export interface Spent {
  readonly mainTurns: number;
  readonly sampledTokens: number;
  /** Milliseconds since the agent's first call, held time not counted. */
  readonly agentMs: number;
}

/** Whether a call is the main agent's own, whose turns and context are the episode's. */
export const isMainAgent = ({ role, foreign }: Pick<ChatCaller, 'role' | 'foreign'>): boolean =>
  role === 'main' && foreign !== true;

const counted = (count: number, word: string): string => `${count} ${word}${count === 1 ? '' : 's'}`;

/** The budgets of one episode: they refuse calls, and remember which of them ended it. */
export class Budgets {
  readonly #limits: EffectiveLimits;
  #usedUp: Exclude<BudgetStop, 'context_overflow'> | null = null;
  #overflowed = false;

  constructor(limits: EffectiveLimits) {
    this.#limits = limits;
  }

  /** What is used up is used up for good, and the first one counts; a context that is full is the least of them. */
  get stop(): BudgetStop | null {
    return this.#usedUp ?? (this.#overflowed ? 'context_overflow' : null);
  }

  /** Throws the refusal when a call of this kind may not be made any more. */
  check(spent: Spent, isMainTurn: boolean): void {
    const { max_turns, max_sampled_tokens, agent_seconds } = this.#limits;
    if (isMainTurn && spent.mainTurns >= max_turns) {
      this.#usedUp ??= 'max_turns';
      throw new ChatError('turn_budget', `this episode's budget of ${counted(max_turns, 'turn')} is used up`);
    }
    if (spent.sampledTokens >= max_sampled_tokens) {
      this.#usedUp ??= 'max_tokens';
      throw new ChatError(
        'token_budget',
        `this episode's budget of ${counted(max_sampled_tokens, 'sampled token')} is used up`,
      );
    }
    if (spent.agentMs >= agent_seconds * 1000) {
      this.#usedUp ??= 'timeout';
      throw new ChatError(
        'time_budget',
        `this episode's time of ${counted(agent_seconds, 'second')} is used up`,
      );
    }
  }

  /** Tokens one call may sample at most, before the length of its prompt is looked at. */
  outputTokens(asked: number | undefined, spent: Spent): number {
    const { max_output_tokens, max_sampled_tokens } = this.#limits;
    return Math.max(
      1,
      Math.min(max_output_tokens, asked ?? Infinity, max_sampled_tokens - spent.sampledTokens),
    );
  }

  /** An answer has come; `spent` holds it, and `cut` says that it ran into its call's limit. */
  answered(spent: Spent, isMainTurn: boolean, cut: boolean): void {
    if (cut && spent.sampledTokens >= this.#limits.max_sampled_tokens) this.#usedUp ??= 'max_tokens';
    // An agent that made its history shorter goes on: the context is not what ends it.
    if (isMainTurn) this.#overflowed = false;
  }

  /** A prompt did not fit. A subagent's, or that of a call made past the agent, ends no episode. */
  overflowed(isMainTurn: boolean): void {
    if (isMainTurn) this.#overflowed = true;
  }
}
