import type { Candidate } from './distribution.ts';

export interface SamplingSettings {
  /** 0 = greedy. */
  readonly temperature: number;
  readonly topP: number;
  /** -1 or 0 = off. */
  readonly topK: number;
  readonly minP: number;
  readonly presencePenalty: number;
  readonly frequencyPenalty: number;
  readonly repetitionPenalty: number;
  readonly logitBias: ReadonlyMap<number, number>;
}

export interface Scored {
  readonly id: number;
  readonly logprob: number;
}

export interface Draw {
  readonly id: number;
  /** Log of the probability this token was picked with. */
  readonly processed: number;
  /** Log of its probability before temperature, penalties, bias and truncation. */
  readonly raw: number;
  /** The distribution it was picked from, and the one before temperature, penalties, bias and truncation. */
  readonly processedFrom: readonly Candidate[];
  readonly rawFrom: readonly Candidate[];
}

/** How often each token was sampled so far, and which stand in the prompt. */
export interface TokenCounts {
  readonly output: ReadonlyMap<number, number>;
  readonly prompt: ReadonlySet<number>;
}

function softmax(logits: readonly { id: number; logit: number }[]): { id: number; p: number }[] {
  const top = Math.max(...logits.map(({ logit }) => logit));
  const weights = logits.map(({ id, logit }) => ({ id, p: Math.exp(logit - top) }));
  const total = weights.reduce((sum, { p }) => sum + p, 0);
  return weights.map(({ id, p }) => ({ id, p: p / total }));
}

function penalised(
  candidates: readonly Candidate[],
  settings: SamplingSettings,
  counts: TokenCounts,
): { id: number; logit: number }[] {
  return candidates.map(({ id, p }) => {
    let logit = Math.log(p);
    const count = counts.output.get(id) ?? 0;
    if (settings.repetitionPenalty !== 1 && (count > 0 || counts.prompt.has(id))) {
      logit = logit > 0 ? logit / settings.repetitionPenalty : logit * settings.repetitionPenalty;
    }
    logit -= settings.frequencyPenalty * count + (count > 0 ? settings.presencePenalty : 0);
    return { id, logit: logit + (settings.logitBias.get(id) ?? 0) };
  });
}

/** What min_p, top_k and top_p leave, most likely first. */
function truncated(
  distribution: readonly { id: number; p: number }[],
  settings: SamplingSettings,
): { id: number; p: number }[] {
  const sorted = [...distribution].sort((a, b) => b.p - a.p || a.id - b.id);
  const most = sorted[0]?.p ?? 1;
  let kept = settings.minP > 0 ? sorted.filter(({ p }) => p >= settings.minP * most) : sorted;
  if (settings.topK > 0) kept = kept.slice(0, settings.topK);
  if (settings.topP < 1) {
    const mass = kept.reduce((sum, { p }) => sum + p, 0);
    let before = 0;
    kept = kept.filter(({ p }) => {
      const inside = before < settings.topP * mass;
      before += p;
      return inside;
    });
  }
  const total = kept.reduce((sum, { p }) => sum + p, 0);
  return kept.map(({ id, p }) => ({ id, p: p / total }));
}

/** Most likely first. */
export function scored(distribution: readonly Candidate[]): Scored[] {
  return [...distribution]
    .sort((a, b) => b.p - a.p || a.id - b.id)
    .map(({ id, p }) => ({ id, logprob: Math.log(p) }));
}

/**
 * Draws one token. Order as in vLLM: penalties and bias, temperature, min_p, top_k, top_p. Greedy (temperature 0)
 * takes the most likely token and, as vLLM does, reports it under the distribution without temperature.
 */
export function draw(
  candidates: readonly Candidate[],
  settings: SamplingSettings,
  counts: TokenCounts,
  uniform: () => number,
): Draw {
  const [only] = candidates;
  if (only !== undefined && candidates.length === 1) {
    // Whatever temperature and penalties are, one candidate has it all.
    return { id: only.id, processed: 0, raw: 0, processedFrom: candidates, rawFrom: candidates };
  }
  const logits = penalised(candidates, settings, counts);
  const greedy = settings.temperature === 0;
  const temperature = greedy ? 1 : settings.temperature;
  const tempered = softmax(logits.map(({ id, logit }) => ({ id, logit: logit / temperature })));
  const final = greedy ? tempered : truncated(tempered, settings);
  const ordered = greedy ? [...final].sort((a, b) => b.p - a.p || a.id - b.id) : final;
  let picked = ordered[0];
  if (!greedy && ordered.length > 1) {
    let rest = uniform();
    for (const candidate of ordered) {
      picked = candidate;
      rest -= candidate.p;
      if (rest < 0) break;
    }
  }
  const { id, p } = picked ?? { id: candidates[0]?.id ?? 0, p: 1 };
  const rawP = candidates.find((candidate) => candidate.id === id)?.p ?? p;
  return {
    id,
    processed: Math.fround(Math.log(p)),
    raw: Math.fround(Math.log(rawP)),
    processedFrom: final,
    rawFrom: candidates,
  };
}
