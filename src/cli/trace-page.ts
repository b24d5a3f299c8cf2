import type { Trace, TracedCall, TraceFile, TraceSoFar } from '../gateway/index.ts';
import { printable } from './printable.ts';

type Message = NonNullable<TracedCall['call']>['new_messages'][number];

function clock(at: number): string {
  return new Date(at).toISOString();
}

function seconds(ms: number): string {
  // A clock that is set back makes less than nothing, and rounding makes minus nothing.
  return `${Math.max(0, ms / 1000).toFixed(2)} s`;
}

/** Lines of a text, each after `margin`. */
function block(text: string, margin: string): string[] {
  return printable(text)
    .split('\n')
    .map((line) => `${margin}${line}`.trimEnd());
}

function textOf(content: unknown): string {
  if (typeof content === 'string') return content;
  if (content === null || content === undefined) return '';
  if (!Array.isArray(content)) return JSON.stringify(content);
  return content
    .map((part: unknown) => {
      const { text } = (typeof part === 'object' && part !== null ? part : {}) as { text?: unknown };
      return typeof text === 'string' ? text : JSON.stringify(part);
    })
    .join('\n');
}

function messageLines(message: Message | null, arrow: string): string[] {
  // Where a list was cut its middle is a text.
  if (message === null || typeof message !== 'object')
    return message === null ? [] : [`  ${String(message)}`];
  const lines: string[] = [];
  const {
    role,
    content,
    reasoning,
    tool_calls: calls,
  } = message as {
    role: string;
    content?: unknown;
    reasoning?: string;
    tool_calls?: readonly { function?: { name?: string; arguments?: string } }[];
  };
  if (reasoning !== undefined)
    lines.push(`  ${arrow} ${printable(role)}, reasoning`, ...block(reasoning, '      '));
  const text = textOf(content);
  if (text !== '' || calls === undefined)
    lines.push(`  ${arrow} ${printable(role)}`, ...block(text, '      '));
  for (const call of calls ?? []) {
    const { name = '?', arguments: given = '' } = call.function ?? {};
    lines.push(`  ${arrow} ${printable(role)} calls ${printable(name)}`, ...block(given, '      '));
  }
  return lines;
}

function versions(from: number | null, to: number | null): string {
  if (from === to) return from === null ? 'version unknown' : `version ${from}`;
  return `version ${from ?? '?'} to ${to ?? '?'}`;
}

function requestLines(begin: TracedCall['begin'], joined: readonly string[]): string[] {
  if (begin?.request_id === undefined) return [];
  const again = joined.length === 0 ? '' : `, asked again as ${joined.join(', ')}`;
  return block(`request ${begin.request_id}${again}`, '  ');
}

function toolLines(begin: TracedCall['begin']): string[] {
  return begin?.tools === undefined ? [] : block(`tools: ${begin.tools.join(', ') || 'none'}`, '  ');
}

function title(
  call: { readonly call: number; readonly agent_id: string; readonly role: string },
  at: number,
  since: number,
): string {
  const who = call.agent_id === call.role ? call.role : `${call.role} ${call.agent_id}`;
  return printable(`call ${call.call}  ${who}  +${seconds(at - since)}`);
}

/** One call for people. `since`: when the episode began. */
export function callLines({ begin, call, joined }: TracedCall, since: number): string[] {
  const head = call ?? begin;
  if (head === null) return [];
  const at = call?.started_at ?? begin?.at ?? since;
  const named = title(head, at, since);
  const about = [...requestLines(begin, joined), ...toolLines(begin)];
  if (call === null) return [`${named}  in flight: nothing more is known of it`, ...about];
  const held = call.held_ms > 0 ? ` (${seconds(call.held_ms)} of it held)` : '';
  const sampled = call.usage?.completion_tokens ?? call.token_ids;
  const facts = [
    call.replica === '' ? 'no replica' : call.replica,
    versions(call.version_start, call.version_end),
    `prompt ${call.usage?.prompt_tokens ?? call.prompt_token_ids ?? '?'} tokens${call.prompt_as === undefined ? '' : ` as ${call.prompt_as}`}`,
    `sampled ${sampled ?? 'none'} of ${call.max_tokens}`,
    `ids ${call.token_ids ?? 'missing'}, logprobs ${call.logprobs ?? 'missing'}`,
    `finish ${call.finish_reason ?? 'none'}`,
  ];
  const marks = [...call.reasons, ...call.notes];
  return [
    `${named}  ${call.fate}  ${seconds(call.ended_at - call.started_at)}${held}`,
    ...about,
    ...block(facts.join(' · '), '  '),
    ...(marks.length > 0 ? block(`marks: ${marks.join(', ')}`, '  ') : []),
    ...call.retries.flatMap((retry) =>
      block(`tried again at +${seconds(retry.at - since)} after: ${retry.error}`, '  ! '),
    ),
    ...(call.error === null ? [] : block(call.error, '  ! ')),
    ...call.new_messages.flatMap((message) => messageLines(message, '>')),
    ...messageLines(call.answer, '<'),
  ];
}

/** A call of which only its beginning is known, on one line. */
export function beginLine(begin: NonNullable<TracedCall['begin']>, since: number): string {
  return `${title(begin, begin.at, since)}  begins`;
}

/** A request that no call was made for. */
export function refusedLines(
  { at, request_id, message }: TraceSoFar['refused'][number],
  since: number,
): string[] {
  return block(`request ${request_id} refused at +${seconds(at - since)}: ${message}`, '! ');
}

/** When the attempt began; what comes later is told as seconds since. */
export function traceBegan({ episode, calls }: TraceSoFar): number {
  const first = calls[0];
  return episode?.at ?? first?.call?.started_at ?? first?.begin?.at ?? 0;
}

/** Which attempt this is. `name`: by its file, for a trace whose first line is missing. */
export function headLines(trace: TraceSoFar, name: Omit<TraceFile, 'path'>): string[] {
  const { episode } = trace;
  return [
    `episode ${episode?.episode_id ?? name.episode}  attempt ${name.attempt}  run ${episode?.run_id ?? name.run}`,
    `${clock(traceBegan(trace))}  worker ${episode?.worker ?? 'unknown'}  pid ${episode?.pid ?? 'unknown'}  model ${episode?.model ?? 'unknown'}`,
  ].map(printable);
}

/** What is missing of a trace, and how the attempt ended. */
export function endLines({ cut, damaged, end }: TraceSoFar, since: number): string[] {
  const lines: string[] = [];
  if (cut) lines.push('the trace was full: further calls stand nowhere');
  if (damaged > 0) lines.push(`lines that cannot be read: ${damaged}`);
  if (end === null) {
    lines.push('no end: the episode still runs, or its worker was killed');
    return lines;
  }
  const { stats, failure } = end;
  lines.push(
    `end at +${seconds(end.at - since)}: ${stats.calls} calls, ${stats.completion_tokens} tokens sampled, ` +
      `${stats.discarded_tokens} of them lost, ${seconds(stats.model_ms)} of the policy, ${seconds(stats.hold_ms)} held` +
      `${stats.budget === null ? '' : `, budget ${stats.budget}`}`,
  );
  if (failure !== null) lines.push(...block(`failure ${failure.code}: ${failure.message}`, '! '));
  return lines;
}

/** One attempt for people. */
export function tracePage(trace: Trace, file: Omit<TraceFile, 'path'>): string {
  const since = traceBegan(trace);
  const lines = headLines(trace, file);
  for (const call of trace.calls) lines.push('', ...callLines(call, since));
  lines.push(
    '',
    ...trace.refused.flatMap((refused) => refusedLines(refused, since)),
    ...endLines(trace, since),
  );
  return `${lines.join('\n')}\n`;
}
