/** Levels of lists and objects. Python's json gives up at about a thousand, templates some frames earlier. */
export const deepestNesting = 256;

/**
 * Whether a value of JSON has at most `levels`, so that the engine can read it. Every request's schemas are walked, so
 * nothing is made here.
 */
export function isShallow(value: unknown, levels = deepestNesting): boolean {
  if (typeof value !== 'object' || value === null) return true;
  if (levels === 0) return false;
  if (Array.isArray(value)) {
    for (const each of value) if (!isShallow(each, levels - 1)) return false;
  } else {
    for (const key in value)
      if (!isShallow((value as Record<string, unknown>)[key], levels - 1)) return false;
  }
  return true;
}
