import type { CallRecord } from '../contracts/index.ts';
import { PrefixIndex } from './prefix-index.ts';

/**
 * Delivered calls of one agent in which each prompt starts with the prompt and completion of the call before it.
 * The last call's prompt and completion are all tokens of the chain.
 */
export interface Chain {
  readonly calls: readonly CallRecord[];
  /** Chains that the delivered calls of this agent form; 1 = its history was only ever appended to. */
  readonly siblings: number;
}

export const noTokens = new Int32Array(0);

/** Null also for an empty list: every prompt has tokens, so an empty one was not given. */
export function promptIds(call: CallRecord): Int32Array | null {
  return call.prompt_token_ids === null || call.prompt_token_ids.length === 0 ? null : call.prompt_token_ids;
}

interface AgentChains {
  readonly chains: CallRecord[][];
  /** Where each call was put, to see whether it is the last of its chain. */
  readonly index: PrefixIndex<{ readonly call: CallRecord; readonly chain: CallRecord[] }>;
}

function place(agent: AgentChains, call: CallRecord): void {
  const prompt = promptIds(call);
  if (prompt === null) {
    // Without its prompt nobody can say where the call stands: it is alone, and nothing can follow it.
    agent.chains.push([call]);
    return;
  }
  const parent = agent.index.longest(prompt);
  let chain: CallRecord[];
  if (parent !== undefined && parent.value.chain.at(-1) === parent.value.call) {
    chain = parent.value.chain;
    chain.push(call);
  } else {
    // No prefix, or one that another call continued already: what is shared comes again, as prompt.
    chain = [call];
    agent.chains.push(chain);
  }
  agent.index.add({ call, chain }, prompt, call.token_ids ?? noTokens, parent);
}

/**
 * Delivered calls as chains, in order of their first call. Agents and roles are kept apart, so that a subagent or a
 * side call never forks the main agent. Calls of any other fate are in no chain.
 */
export function buildChains(calls: readonly CallRecord[]): Chain[] {
  const agents = new Map<string, AgentChains>();
  for (const call of calls.toSorted((a, b) => a.index - b.index)) {
    if (call.fate !== 'delivered') continue;
    const key = JSON.stringify([call.role, call.agent_id]);
    let agent = agents.get(key);
    if (agent === undefined) agents.set(key, (agent = { chains: [], index: new PrefixIndex() }));
    place(agent, call);
  }
  return [...agents.values()]
    .flatMap(({ chains }) => chains.map((chain) => ({ calls: chain, siblings: chains.length })))
    .sort((a, b) => a.calls[0]!.index - b.calls[0]!.index);
}
