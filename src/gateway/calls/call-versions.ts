import type { CallRecord, VersionSpan } from '../../contracts/index.ts';

/**
 * A call's versions: what was pushed when it began and ended, else what the engine says, the lowest first, so that who
 * filters by `version_start` filters by the oldest weights. Spans are kept where they say more than that.
 */
export function versionsOf(
  start: number | null,
  end: number | null,
  spans: readonly VersionSpan[],
): Pick<CallRecord, 'version_start' | 'version_end' | 'version_spans'> {
  const numbers = spans.map(({ version }) => version).filter((version) => typeof version === 'number');
  // A name among them could be older than any number: nothing is known of the lowest then.
  const known = start === null && end === null && spans.length > 0 && numbers.length === spans.length;
  const versions = known
    ? { version_start: Math.min(...numbers), version_end: Math.max(...numbers) }
    : { version_start: start, version_end: end };
  const says = new Set(spans.map(({ version }) => version));
  const [only] = says;
  const isNew = says.size > 1 || (only !== undefined && only !== versions.version_start);
  return isNew ? { ...versions, version_spans: spans } : versions;
}
