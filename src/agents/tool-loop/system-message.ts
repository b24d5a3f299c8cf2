import { canonicalJson, type Task } from '../../contracts/index.ts';

const introduction = "You act in an environment through its tools, on the user's behalf.";

function said(value: unknown): string {
  return typeof value === 'string' ? value : canonicalJson(value);
}

/** The same text for the same task and tools, so that all samples of a group begin alike. */
export function systemMessage(task: Task, instructions: string): string {
  const { CURRENT_DATE: date, ...others } = task.kind === 'fleet' ? task.env_variables : {};
  const variables = Object.entries(others).sort(([a], [b]) => (a < b ? -1 : 1));
  const parts = [introduction];
  if (date !== undefined) parts.push(`The current date is ${said(date)}.`);
  if (variables.length > 0) {
    parts.push(
      ['The environment:', ...variables.map(([name, value]) => `${name}: ${said(value)}`)].join('\n'),
    );
  }
  parts.push(instructions);
  return parts.join('\n\n');
}
