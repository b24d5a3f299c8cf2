import type { Sequence } from '../contracts/index.ts';

/** How an episode's agents went on. */
export interface Forks {
  /** Calls after their agent's first: each could have gone on from what stood there. */
  readonly followed: number;
  /** Those whose prompt did not begin with all that stood there: each began another sequence. */
  readonly forked: number;
}

/** Auxiliary calls go on from nothing, and count for nothing here. */
export function forksOf(sequences: readonly Pick<Sequence, 'role' | 'agent_id' | 'turns'>[]): Forks {
  const agents = new Set<string>();
  let calls = 0;
  let chains = 0;
  for (const { role, agent_id, turns } of sequences) {
    if (role === 'auxiliary') continue;
    agents.add(JSON.stringify([role, agent_id]));
    chains += 1;
    calls += turns.length;
  }
  return { followed: calls - agents.size, forked: chains - agents.size };
}
