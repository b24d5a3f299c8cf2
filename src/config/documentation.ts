import { noteOf, variableNames } from './environment.ts';

/** The text of docs/configuration.md, made from the schema; a test fails when the page says something else. */
export function configurationPage(): string {
  const sections = new Map<string, string[]>();
  for (const name of variableNames) {
    const note = noteOf(name);
    const rows = sections.get(note.section) ?? [];
    const secret = note.secret ? ` Or \`${name}_FILE\`: a file that holds it.` : '';
    rows.push(`| \`${name}\` | ${note.about}${secret} | ${note.absent} |`);
    sections.set(note.section, rows);
  }
  const tables = [...sections].map(([section, rows]) =>
    [`## ${section}`, '', '| variable | what it is | when absent |', '|---|---|---|', ...rows].join('\n'),
  );
  return `${[
    '# Configuration: which variables does rollpool read?',
    [
      'Every process of the pool reads its settings from the environment, once, at its start. A flag of a command goes',
      'over the variable of the same meaning. An empty variable counts as absent. All faults are printed at once, and',
      'the exit code is 2; an unknown variable that begins with `ROLLPOOL_` is a fault too, as it is most likely a',
      'misspelt one. The value of a secret stands in no message; give the variable or its `_FILE` variant, not both.',
    ].join('\n'),
    ...tables,
    [
      '## Which value holds?',
      '',
      "Limits: a task's own, over the batch's, over the run's, over these variables. Sampling: the batch's, over the",
      "run's, over these variables; what an agent asks for is recorded and ignored.",
    ].join('\n'),
  ].join('\n\n')}\n`;
}
