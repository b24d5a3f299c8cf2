import type { AssistantMessage, ChatMessage } from '../../../contracts/index.ts';
import type { DialectCall } from '../dialect.ts';
import { asList, asObject, asString, badField, optionalCount, optionalStops } from '../field.ts';
import { pairToolResults } from '../pairing.ts';
import { assistantMessage, userMessages } from './content.ts';
import { joinSystem, systemText } from './system.ts';
import { toolChoice, toolDefinitions } from './tools.ts';

/** Two assistant turns in a row are one (case 31). */
function merged(first: AssistantMessage, second: AssistantMessage): AssistantMessage {
  const reasoning = (first.reasoning ?? '') + (second.reasoning ?? '');
  const calls = [...(first.tool_calls ?? []), ...(second.tool_calls ?? [])];
  const content = (first.content ?? '') + (second.content ?? '');
  return {
    role: 'assistant',
    content: content === '' && calls.length > 0 ? null : content,
    ...(reasoning === '' ? {} : { reasoning }),
    ...(calls.length === 0 ? {} : { tool_calls: calls }),
  };
}

function middleMessages(value: unknown): { lead: string[]; messages: ChatMessage[] } {
  const lead: string[] = [];
  const messages: ChatMessage[] = [];
  for (const [at, each] of asList(value, 'messages').entries()) {
    const path = `messages.${at}`;
    const message = asObject(each, path);
    const content = message['content'];
    switch (message['role']) {
      case 'user':
      case 'ctx':
      case 'msg':
        messages.push(...userMessages(content, `${path}.content`));
        break;
      case 'assistant': {
        const turn = assistantMessage(content, `${path}.content`);
        const before = messages.at(-1);
        if (turn === null) break;
        if (before?.role === 'assistant') messages[messages.length - 1] = merged(before, turn);
        else messages.push(turn);
        break;
      }
      // Sent by the CLI in mid-conversation; those in front belong to the system prompt (case 21).
      case 'system':
      case 'developer': {
        const text = systemText(content, `${path}.content`);
        if (messages.length === 0) lead.push(text);
        else if (text !== '') messages.push({ role: 'system', content: text });
        break;
      }
      default:
        throw badField(
          `${path}.role`,
          `must be user, assistant or system, not ${JSON.stringify(message['role'])}`,
        );
    }
  }
  return { lead, messages };
}

/**
 * An Anthropic Messages request in the middle form (facts: token capture 4, cases 1 to 37). Fields that are not named
 * here (metadata, thinking, context_management, output_config, betas, temperature ...) are taken and ignored: sampling
 * is the run's business, and a 400 would make the CLI try step by step without them.
 */
export function parseMessagesRequest(body: unknown): DialectCall {
  const root = asObject(body, 'body');
  const { lead, messages } = middleMessages(root['messages']);
  if (messages.length === 0) throw badField('messages', 'must not be empty');
  const system = joinSystem([systemText(root['system'], 'system'), ...lead]);
  const tools = toolDefinitions(root['tools']);
  const stop = optionalStops(root['stop_sequences'], 'stop_sequences');
  const maxTokens = optionalCount(root['max_tokens'], 'max_tokens');
  return {
    request: {
      messages: [
        ...(system === '' ? [] : [{ role: 'system', content: system } as const]),
        ...pairToolResults(messages),
      ],
      ...(tools.length === 0 ? {} : { tools, ...toolChoice(root['tool_choice'], tools) }),
      ...(stop === undefined ? {} : { stop }),
      ...(maxTokens === undefined ? {} : { max_tokens: maxTokens }),
    },
    stream: root['stream'] === true,
    model: root['model'] === undefined ? '' : asString(root['model'], 'model'),
  };
}
