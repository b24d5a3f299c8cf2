import type { ChatMessage, ToolDefinition } from '../../contracts/index.ts';
import type { Observation, ToolDialect } from './dialect.ts';
import { cutOffNotice, imageParts, resultText } from './observation-text.ts';
import { submitToolName } from './submit-answer.ts';
import { readTextTurn } from './text-call.ts';

const format = '<tool_call>{"name": "NAME", "arguments": {"PARAMETER": "VALUE"}}</tool_call>';

const noCall = `No tool call found in your message. Call a tool with ${format}, or write <done> when the task is done.`;

function instructions(tools: readonly ToolDefinition[], submits: boolean): string {
  return [
    'The tools, one JSON object a line:',
    ...tools.map((tool) => JSON.stringify(tool.function)),
    '',
    `To call a tool, write ${format}`,
    'with one call a message, and wait for its result, which is the next message.',
    submits
      ? `When the task is done, call ${submitToolName} with your answer.`
      : 'When the task is done, write <done>.',
  ].join('\n');
}

function observed(observation: Observation): ChatMessage {
  const text = observation.result.is_error
    ? resultText(observation)
    : `Tool result:\n${resultText(observation)}`;
  const images = imageParts(observation);
  return { role: 'user', content: images.length === 0 ? text : [{ type: 'text', text }, ...images] };
}

/** Tools stand in the system message, calls in the policy's text, results in user messages: no tool parser is needed. */
export function textDialect(tools: readonly ToolDefinition[], submits: boolean): ToolDialect {
  return {
    tools: null,
    instructions: instructions(tools, submits),
    read({ message, stop }) {
      const { call, done } = readTextTurn(message.content ?? '', stop === 'length');
      return { calls: call === null ? [] : [call], done };
    },
    observe({ stop }, observations) {
      if (observations.length > 0) return observations.map(observed);
      return [{ role: 'user', content: stop === 'length' ? `${cutOffNotice} ${noCall}` : noCall }];
    },
  };
}
