import type { ToolDefinition } from '../../../contracts/index.ts';

/** A call as it was read out of a text. `id` is empty where the format has none. */
export interface SaidCall {
  readonly id: string;
  readonly name: string;
  readonly arguments: string;
}

/**
 * What stands at a place where a call may begin: calls, and text that is none, up to `end`. Or nothing that can be told
 * before more of the text is there, and before one of `until` is in it where those are given.
 */
export type Reading =
  | { readonly parts: readonly (string | SaidCall)[]; readonly end: number }
  | { readonly until: readonly string[] | null };

/** How a model writes calls. */
export interface CallSyntax {
  /** A call begins with one of these, and only there. */
  readonly openers: readonly string[];
  /** Markers around thinking. */
  readonly thinking: readonly [open: string, close: string];
  /** A call that ends thinking which was never closed: its opener, and what must follow behind white space. */
  readonly endsThinking?: readonly [opener: string, next: string];
  /** One call that cannot be read makes text of all calls, as in the engine's parser. */
  readonly allOrNone?: boolean;
  /** White space in front of the first call is no text. */
  readonly dropsBlankLead?: boolean;
  /**
   * Reads at an opener. `final`: the text ends here, and all of it must be told. What was told of a text is told of every
   * longer one, too.
   */
  read(text: string, at: number, final: boolean, tools: readonly ToolDefinition[]): Reading;
}

/** The opener at this place begins no call. */
export function noCall(text: string, at: number, length: number): Reading {
  return { parts: [text.slice(at, at + length)], end: at + length };
}

/** Nothing can be told yet; at the end of the text it is no call. */
export function unfinished(
  text: string,
  at: number,
  length: number,
  final: boolean,
  until: readonly string[] | null,
): Reading {
  return final ? noCall(text, at, length) : { until };
}

export function skipBlank(text: string, at: number): number {
  let end = at;
  while (end < text.length && /\s/.test(text[end] ?? '')) end++;
  return end;
}

/** Whether the text from here to its end may still become `marker`. */
export function mayBecome(text: string, at: number, marker: string): boolean {
  return text.length - at < marker.length && marker.startsWith(text.slice(at));
}

/** A name that a tool could have. */
export function isName(name: string): boolean {
  return name !== '' && !/[\s<>{}"'[\]]/.test(name);
}

/** The schema of a tool's parameters, by name. */
export function propertiesOf(
  tools: readonly ToolDefinition[],
  name: string,
): Readonly<Record<string, unknown>> {
  const tool = tools.find((each) => each.function.name === name);
  const parameters = tool?.function.parameters as { readonly properties?: unknown } | null | undefined;
  const properties = parameters?.properties;
  return typeof properties === 'object' && properties !== null ? { ...properties } : {};
}
