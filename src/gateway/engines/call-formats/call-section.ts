import { noCall, type Reading, type SaidCall } from './call-syntax.ts';

/** The markers of a format that has calls in a section. */
export interface SectionMarkers {
  readonly begin: string;
  readonly end: string;
  readonly callBegin: string;
  readonly callEnd: string;
  /** What stands between a call's markers; null when that is no call. */
  readonly call: (body: string) => SaidCall | null;
}

/** Reads a section. What is in it and no call stays text, with its markup. */
export function readSection(text: string, at: number, final: boolean, markers: SectionMarkers): Reading {
  const { begin, end, callBegin, callEnd, call } = markers;
  const found = text.indexOf(end, at);
  if (found < 0 && !final) return { until: [end] };
  const to = found < 0 ? text.length : found;
  const parts: (string | SaidCall)[] = [];
  let from = at + begin.length;
  while (from < to) {
    const opened = text.indexOf(callBegin, from);
    const closed = opened < 0 ? -1 : text.indexOf(callEnd, opened);
    if (closed < 0 || closed >= to) break;
    const said = call(text.slice(opened + callBegin.length, closed));
    const behind = closed + callEnd.length;
    parts.push(text.slice(from, opened), said ?? text.slice(opened, behind));
    from = behind;
  }
  if (parts.every((part) => typeof part === 'string')) return noCall(text, at, begin.length);
  parts.push(text.slice(from, to));
  return { parts, end: found < 0 ? to : found + end.length };
}
