import type { VersionSpan } from '../../contracts/index.ts';
import { object, type Json } from './completion-parts.ts';

/** What SGLang calls weights that nobody gave a version. */
const unnamed = 'default';

/** A version as the engine says it; null where it says none. */
function versionOf(value: unknown): VersionSpan['version'] | null {
  if (typeof value === 'number') return Number.isSafeInteger(value) && value >= 0 ? value : null;
  if (typeof value !== 'string' || value === '' || value === unnamed) return null;
  return /^\d{1,15}$/.test(value) ? Number(value) : value;
}

/** Spans of the sampled tokens, in order; null where they are no such list. */
function spansOf(value: unknown, sampled: number): VersionSpan[] | null {
  if (!Array.isArray(value) || value.length === 0) return null;
  // One list for each choice.
  if (Array.isArray(value[0])) return spansOf(value[0], sampled);
  const spans: VersionSpan[] = [];
  let at = 0;
  for (const each of value) {
    const { start, end, version: said } = object(each) ?? {};
    const version = versionOf(said);
    if (version === null || !Number.isInteger(start) || !Number.isInteger(end)) return null;
    if ((start as number) < at || (end as number) <= (start as number) || (end as number) > sampled)
      return null;
    at = end as number;
    spans.push({ start: start as number, end: at, version });
  }
  return spans;
}

/**
 * Which versions of the weights sampled an answer, as offsets in its sampled tokens: SGLang's `weight_versions`, else its one
 * `weight_version`, beside the answer's meta info or, on its chat route, in `metadata` or `sglext` (facts: token capture
 * 2). Empty where it says nothing, or nothing that fits the tokens.
 */
export function engineVersions(places: readonly (Json | null)[], sampled: number): readonly VersionSpan[] {
  if (sampled === 0) return [];
  for (const place of places) {
    const spans = spansOf(place?.['weight_versions'], sampled);
    if (spans !== null) return spans;
  }
  for (const place of places) {
    const version = versionOf(place?.['weight_version']);
    if (version !== null) return [{ start: 0, end: sampled, version }];
  }
  return [];
}
