/**
 * JSON as Python writes it: NaN and the infinities stay what they are, where JSON.stringify would make them null. A
 * verifier's null means full marks, so one must never come of another.
 */
export function pythonJson(value: unknown): string {
  let found = false;
  const find = (part: unknown): void => {
    if (typeof part === 'number') found ||= !Number.isFinite(part);
    else if (typeof part === 'object' && part !== null) Object.values(part).forEach(find);
  };
  find(value);
  if (!found) return JSON.stringify(value) ?? 'null';
  return write(value);
}

function write(value: unknown): string {
  if (typeof value === 'number') return Number.isNaN(value) ? 'NaN' : String(value);
  if (Array.isArray(value)) return `[${value.map((part) => write(part ?? null)).join(',')}]`;
  if (typeof value === 'object' && value !== null) {
    const fields = Object.entries(value).filter(([, part]) => part !== undefined);
    return `{${fields.map(([key, part]) => `${JSON.stringify(key)}:${write(part)}`).join(',')}}`;
  }
  return JSON.stringify(value) ?? 'null';
}
