import type { ChatMessage, ContentPart, ToolDefinition } from '../../contracts/index.ts';
import { readArguments } from './call-arguments.ts';
import type { Observation, ReadCall, ToolDialect } from './dialect.ts';
import { cutOffNotice, imageParts, resultText } from './observation-text.ts';
import { submitToolName } from './submit-answer.ts';
import { hasCallMarkup } from './text-call.ts';

/** Results take text only, so images follow in a user message that says whose they are. */
function imagesOf(observations: readonly Observation[]): ChatMessage[] {
  const parts = observations.flatMap((observation, at): ContentPart[] => {
    const images = imageParts(observation);
    if (images.length === 0) return [];
    const label = `${images.length === 1 ? 'Image' : 'Images'} of the result of call ${at + 1} (${observation.call.name}):`;
    return [{ type: 'text', text: label }, ...images];
  });
  return parts.length === 0 ? [] : [{ role: 'user', content: parts }];
}

/** Tools go to the engine with every request, and calls come back parsed. */
export function nativeDialect(tools: readonly ToolDefinition[], submits: boolean): ToolDialect {
  const how = 'Call the tools to carry out the task.';
  return {
    tools,
    instructions: submits
      ? `${how} When it is done, call ${submitToolName} with your answer.`
      : `${how} When it is done, answer without calling a tool.`,
    read({ message, stop }) {
      const calls = (message.tool_calls ?? []).map(({ id, function: called }): ReadCall => {
        const name = called.name.trim();
        if (name === '') return { id, name, fault: 'it names no tool' };
        return { id, name, ...readArguments(called.arguments) };
      });
      if (calls.length > 0) return { calls, done: false };
      if (stop === 'length') return { calls, done: false };
      // A parser that cannot read a call leaves it in the text: the policy did not mean to end.
      if (hasCallMarkup(message.content ?? '')) {
        return { calls: [{ id: null, name: '', fault: 'it is not written as it should be' }], done: false };
      }
      return { calls, done: true };
    },
    observe(_answer, observations) {
      if (observations.length === 0) return [{ role: 'user', content: cutOffNotice }];
      return [
        ...observations.map((observation): ChatMessage => {
          const { id } = observation.call;
          const content = resultText(observation);
          return id === null ? { role: 'user', content } : { role: 'tool', tool_call_id: id, content };
        }),
        ...imagesOf(observations),
      ];
    },
  };
}
