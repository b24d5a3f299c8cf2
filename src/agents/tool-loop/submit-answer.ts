import type { ToolDefinition } from '../../contracts/index.ts';
import type { CallArguments } from './call-arguments.ts';

export const submitToolName = 'submit_final_answer';

/** A tool of the loop itself: calling it ends the episode and hands the answer to the verifier. */
export const submitTool: ToolDefinition = {
  type: 'function',
  function: {
    name: submitToolName,
    description: 'Submits the final answer to the task and ends it.',
    parameters: {
      type: 'object',
      properties: { answer: { type: 'string', description: 'The final answer.' } },
      required: ['answer'],
    },
  },
};

/** Offered where the prompt asks for it and the environment has no tool of that name. */
export function offersSubmit(prompt: string, tools: readonly ToolDefinition[]): boolean {
  return prompt.includes(submitToolName) && tools.every((tool) => tool.function.name !== submitToolName);
}

export function readAnswer(
  args: Readonly<Record<string, unknown>>,
): { readonly answer: string } | Extract<CallArguments, { fault: string }> {
  const { answer } = args;
  return typeof answer === 'string' ? { answer } : { fault: 'its argument "answer" must be a string' };
}
