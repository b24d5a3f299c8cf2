import type { FleetTask } from '../../src/contracts/index.ts';
import type { ScriptedPolicy } from '../../src/policy/index.ts';
import { attempt, workshop } from '../local-fleet/shipped/workshop.ts';
import { post } from '../policy/support.ts';

const submit = {
  type: 'function',
  function: {
    name: 'submit_final_answer',
    parameters: { type: 'object', properties: { answer: { type: 'string' } }, required: ['answer'] },
  },
};

export interface Played {
  /** The verifier's result; null when it failed. */
  readonly reward: unknown;
  readonly turns: number;
  /** Names of the tools called, in order. */
  readonly called: readonly string[];
  /** The most calls of one turn. */
  readonly most: number;
  readonly submitted: boolean;
  /** What tools refused. */
  readonly errors: readonly string[];
  /** Whether every prompt began with all ids before it. */
  readonly exact: boolean;
}

/** Plays a task of the workshop against a policy with a bare loop, and grades it with its verifier. */
export async function play(policy: ScriptedPolicy, task: FleetTask): Promise<Played> {
  await using tried = await attempt(task);
  const tools = workshop!.tools.map(({ name, description, inputSchema }) => ({
    type: 'function',
    function: { name, description, parameters: inputSchema },
  }));
  if (task.prompt.includes('submit_final_answer')) tools.push(submit as never);
  const messages: Record<string, unknown>[] = [{ role: 'user', content: task.prompt }];
  const called: string[] = [];
  const errors: string[] = [];
  let before: number[] = [];
  let [exact, turns, most] = [true, 0, 0];
  let answer: string | null = null;
  while (turns < 30 && answer === null) {
    const { body } = await post(policy, { messages, tools, logprobs: true, return_token_ids: true });
    turns += 1;
    const prompt: number[] = body.prompt_token_ids;
    exact &&= before.every((id, at) => id === prompt[at]);
    before = [...prompt, ...body.choices[0].token_ids];
    const { message } = body.choices[0];
    messages.push(message);
    const calls = message.tool_calls ?? [];
    if (calls.length === 0) break;
    most = Math.max(most, calls.length);
    for (const { id, function: used } of calls) {
      called.push(used.name);
      const args = JSON.parse(used.arguments);
      if (used.name === 'submit_final_answer') {
        answer = args.answer;
        break;
      }
      const outcome = tried.call(used.name, args);
      if ('error' in outcome) errors.push(outcome.error);
      const content = 'error' in outcome ? outcome.error : JSON.stringify(outcome.value);
      messages.push({ role: 'tool', tool_call_id: id, content });
    }
  }
  const { success, result } = await tried.verify(answer);
  return {
    ...{ reward: success ? result : null, turns, called, most },
    ...{ submitted: answer !== null, errors, exact },
  };
}
