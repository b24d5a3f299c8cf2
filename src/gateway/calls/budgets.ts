import type { EffectiveLimits } from '../../contracts/index.ts';
import { ChatError } from '../chat.ts';
import type { BudgetStop } from '../session.ts';

/** What an episode has used so far. */
export interface Spent {
  readonly mainTurns: number;
  readonly sampledTokens: number;
  /** Milliseconds since the agent's first call, held time not counted. */
  readonly agentMs: number;
}

/** The budgets of one episode: they refuse calls, and remember which of them was met first. */
export class Budgets {
  readonly #limits: EffectiveLimits;
  #stop: BudgetStop | null = null;

  constructor(limits: EffectiveLimits) {
    this.#limits = limits;
  }

  get stop(): BudgetStop | null {
    return this.#stop;
  }

  /** The first budget met counts. */
  met(budget: BudgetStop): void {
    this.#stop ??= budget;
  }

  /** Throws the refusal when a call of this kind may not be made any more. */
  check(spent: Spent, isMainTurn: boolean): void {
    const { max_turns, max_sampled_tokens, agent_seconds } = this.#limits;
    if (isMainTurn && spent.mainTurns >= max_turns) {
      this.met('max_turns');
      throw new ChatError('turn_budget', `this episode's budget of ${max_turns} turns is used up`);
    }
    if (spent.sampledTokens >= max_sampled_tokens) {
      this.met('max_tokens');
      throw new ChatError(
        'token_budget',
        `this episode's budget of ${max_sampled_tokens} sampled tokens is used up`,
      );
    }
    if (spent.agentMs >= agent_seconds * 1000) {
      this.met('timeout');
      throw new ChatError('time_budget', `this episode's time of ${agent_seconds} seconds is used up`);
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
}
