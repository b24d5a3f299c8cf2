export type VerifierScore =
  | {
      /** From 0 to 1. */
      readonly score: number;
      /** The other numbers of a result object, as they came. */
      readonly parts: Readonly<Record<string, number>>;
      /** The verifier succeeded and returned nothing. */
      readonly nullResult: boolean;
    }
  | { readonly fault: { readonly code: 'reward_invalid' | 'reward_out_of_range'; readonly message: string } };

const maxParts = 16;
const partName = /^[A-Za-z][A-Za-z0-9_.-]{0,63}$/;
/** What sums of binary fractions may miss a bound by. */
const rounding = 1e-9;
const decimal = /^[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?$/;
const notFinite = /^[+-]?(?:nan|inf|infinity)$/i;

function shown(value: unknown): string {
  let text: string | undefined;
  try {
    text = JSON.stringify(value);
  } catch {
    // A value that no JSON document holds.
  }
  return (text ?? String(typeof value)).slice(0, 120);
}

/** A number as Python's float() takes it; null for what is none. NaN and the infinities come as words too. */
function toNumber(value: unknown): number | null {
  if (typeof value === 'number') return value;
  if (typeof value === 'boolean') return value ? 1 : 0;
  if (typeof value !== 'string') return null;
  const text = value.trim();
  if (notFinite.test(text)) return NaN;
  return decimal.test(text) ? Number(text) : null;
}

/** At most 16 parts with plain names: what a verifier returns beside its score is not bounded by anybody else. */
function partsOf(result: Readonly<Record<string, unknown>>): Record<string, number> {
  const parts: Record<string, number> = {};
  for (const [name, value] of Object.entries(result)) {
    if (Object.keys(parts).length === maxParts) break;
    if (name === 'score' || name === 'verifier' || !partName.test(name)) continue;
    if (typeof value === 'boolean') parts[name] = value ? 1 : 0;
    else if (typeof value === 'number' && Number.isFinite(value)) parts[name] = value;
  }
  return parts;
}

/**
 * The score in what a verifier that succeeded returned: a number, True or False, a text that is a number, or an object
 * with one of these as `score`. Nothing returned is a pass, by the vendor's rule. What is no number, not finite or not
 * from 0 to 1 is a fault of the task, never a 0 (the vendor's SDK makes a 0 of what it cannot convert).
 */
export function readScore(result: unknown): VerifierScore {
  if (result === null || result === undefined) return { score: 1, parts: {}, nullResult: true };
  const object =
    typeof result === 'object' && !Array.isArray(result) && Object.hasOwn(result, 'score')
      ? (result as Readonly<Record<string, unknown>>)
      : null;
  const value = toNumber(object === null ? result : object['score']);
  if (value === null) {
    return {
      fault: { code: 'reward_invalid', message: `the verifier returned no score: ${shown(result)}` },
    };
  }
  if (!(value >= -rounding && value <= 1 + rounding)) {
    const said = typeof value === 'number' && Number.isFinite(value) ? String(value) : shown(result);
    return {
      fault: {
        code: 'reward_out_of_range',
        message: `the verifier returned ${said}, not a score from 0 to 1`,
      },
    };
  }
  // A zero is one number, whatever its sign.
  const score = value <= 0 ? 0 : Math.min(1, value);
  return { score, parts: object === null ? {} : partsOf(object), nullResult: false };
}
