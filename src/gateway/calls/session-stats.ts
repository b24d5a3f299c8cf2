import type { Failure } from '../../contracts/index.ts';
import type { BudgetStop, SessionStats } from '../session.ts';
import { isMainAgent } from './budgets.ts';
import type { RecordedCall } from './recorded-call.ts';
import type { UnionClock } from './union-clock.ts';

/** A turn of the main agent: one it has, or may still get. A retried or failed call is none. */
function isMainTurn({ caller, fate }: RecordedCall): boolean {
  return isMainAgent(caller) && fate !== 'failed' && fate !== 'aborted' && fate !== 'discarded';
}

/** What its calls took of the episode's budgets so far. Asked at every call. */
export function spentOn(calls: readonly RecordedCall[]): { mainTurns: number; sampledTokens: number } {
  const spent = { mainTurns: 0, sampledTokens: 0 };
  for (const call of calls) {
    if (isMainTurn(call)) spent.mainTurns++;
    spent.sampledTokens += call.spentTokens;
  }
  return spent;
}

const sum = (calls: readonly RecordedCall[], of: (call: RecordedCall) => number): number =>
  calls.reduce((total, call) => total + of(call), 0);

/** What the episode reads off its calls. */
export function sessionStats(
  calls: readonly RecordedCall[],
  clocks: { readonly model: UnionClock; readonly hold: UnionClock },
  budget: BudgetStop | null,
  failure: Failure | null,
): SessionStats {
  return {
    calls: calls.length,
    main_turns: calls.filter(isMainTurn).length,
    prompt_tokens: sum(calls, (call) => call.promptTokens),
    completion_tokens: sum(calls, (call) => call.completionTokens),
    discarded_tokens: sum(calls, (call) => (call.isLost ? call.completionTokens : 0)),
    model_ms: clocks.model.ms,
    hold_ms: clocks.hold.ms,
    longest_call_ms: calls.reduce((longest, { clock }) => Math.max(longest, clock.activeMs), 0),
    self_calls: calls.filter(({ caller }) => caller.foreign === true).length,
    budget,
    failure,
  };
}
