/**
 * Milliseconds of a Retry-After header: seconds (fractions too, as some proxies send) or an HTTP date; null when it is
 * neither. `now`: epoch milliseconds.
 */
export function retryAfterMs(header: string | null | undefined, now: number): number | null {
  const text = header?.trim() ?? '';
  if (/^\d+(\.\d+)?$/.test(text)) return Math.ceil(Number(text) * 1000);
  // A date has a name of a day in it; a bare number with a sign would be taken for a year.
  const date = /[a-z]{3}/i.test(text) ? Date.parse(text) : Number.NaN;
  return Number.isNaN(date) ? null : Math.max(0, date - now);
}
