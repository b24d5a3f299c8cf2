import { CompletionParser } from './completion-parser.ts';
import { PrefixHash } from './hashing.ts';
import { badRequest } from './refusal.ts';
import { endOfTurn, specialId } from './special-tokens.ts';
import { decodeTokens, isSpecial } from './tokenizer.ts';

const start = specialId('<|im_start|>');
const tools = specialId('<tools>');

/** What a rendered prompt says: the conversation again, as a request would have brought it. */
export interface ReadPrompt {
  readonly messages: readonly Record<string, unknown>[];
  /** Whether it lists tools. */
  readonly hasTools: boolean;
}

function message(role: string, ids: readonly number[]): Record<string, unknown> {
  if (role !== 'assistant') return { role, content: decodeTokens(ids, true) };
  const parser = new CompletionParser(true);
  for (const id of ids) parser.push(id);
  const said = parser.message();
  return {
    role,
    content: said.content,
    reasoning: said.reasoning,
    tool_calls: said.calls.map((call, at) => ({ id: `call-${at}`, type: 'function', function: call })),
  };
}

/**
 * Reads a prompt of ids: for a route that is given no messages. Throws `Refusal`, naming `field`, when it does not end in
 * an open turn.
 */
export function readPrompt(ids: readonly number[], field: string): ReadPrompt {
  const messages: Record<string, unknown>[] = [];
  let open = false;
  for (let at = ids.indexOf(start); at >= 0 && !open;) {
    const end = ids.indexOf(endOfTurn, at);
    open = end < 0;
    const turn = ids.slice(at + 1, open ? undefined : end);
    const head = turn.findIndex((id) => isSpecial(id) || decodeTokens([id]).includes('\n'));
    const role = decodeTokens(turn.slice(0, head < 0 ? undefined : head + 1)).trim();
    if (open) {
      if (role !== 'assistant' || decodeTokens(turn) !== 'assistant\n') break;
      return { messages, hasTools: ids.includes(tools) };
    }
    messages.push(message(role, turn.slice(head + 1)));
    at = ids.indexOf(start, end);
  }
  throw badRequest('the prompt does not end where an assistant turn begins.', field);
}

/** Names a prompt in the turn memory, as its rendering does. */
export function prefixOf(ids: Iterable<number>): string {
  const hash = new PrefixHash();
  for (const id of ids) hash.add(id);
  return hash.toString();
}
