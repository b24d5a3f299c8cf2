import { placeholder, stepColumn, type CompiledStep, type CompiledTool } from './compile-tool.ts';
import type { LocalToolOutcome } from './environment.ts';
import type { Answer } from './folder-format.ts';
import {
  execute,
  toJson,
  toSql,
  type Connection,
  type SqlBounds,
  type SqlOutcome,
  type SqlValue,
} from './sqlite.ts';

/** A check of a tool did not hold: its message is the answer. */
class ToolRefusal extends Error {}

interface Done {
  readonly step: CompiledStep;
  readonly outcome: SqlOutcome;
}

/** Everything that a parameter can mean during one call. */
class CallScope {
  readonly #arguments: Readonly<Record<string, unknown>>;
  readonly #variables: Readonly<Record<string, unknown>>;
  readonly #done = new Map<string, Done>();

  constructor(args: Readonly<Record<string, unknown>>, variables: Readonly<Record<string, unknown>>) {
    this.#arguments = args;
    this.#variables = variables;
  }

  add(step: CompiledStep, outcome: SqlOutcome): void {
    if (step.as !== undefined) this.#done.set(step.as, { step, outcome });
  }

  done(step: string): Done {
    const found = this.#done.get(step);
    if (found === undefined) throw new Error(`no step is called ${step}`);
    return found;
  }

  /** NULL for an argument that was not given, and for a step without rows. */
  value(parameter: string): SqlValue {
    const name = parameter.slice(1);
    if (parameter.startsWith(':'))
      return Object.hasOwn(this.#arguments, name) ? toSql(this.#arguments[name]) : null;
    if (parameter.startsWith('@'))
      return Object.hasOwn(this.#variables, name) ? toSql(this.#variables[name]) : null;
    const { step, column } = stepColumn(parameter);
    const { outcome } = this.done(step);
    return outcome.rows[0]?.[outcome.columns.indexOf(column)] ?? null;
  }

  message(template: string): string {
    return template.replace(placeholder, (_, parameter: string) => String(toJson(this.value(parameter))));
  }
}

function rowObject({ step, outcome }: Done, row: readonly SqlValue[]): Record<string, unknown> {
  return Object.fromEntries(
    outcome.columns.map((column, index) => {
      const value = row[index] ?? null;
      if (!step.json.includes(column) || typeof value !== 'string') return [column, toJson(value)];
      return [column, JSON.parse(value) as unknown];
    }),
  );
}

function shape(answer: Answer, scope: CallScope): unknown {
  if ('object' in answer)
    return Object.fromEntries(
      Object.entries(answer.object).map(([key, inner]) => [key, shape(inner, scope)]),
    );
  if ('text' in answer) return scope.message(answer.text);
  if ('rows' in answer) {
    const done = scope.done(answer.rows);
    return done.outcome.rows.map((row) => rowObject(done, row));
  }
  if ('changes' in answer) {
    const { outcome } = scope.done(answer.changes);
    return outcome.columns.length > 0 ? outcome.rows.length : outcome.changes;
  }
  const done = scope.done('row' in answer ? answer.row : answer.value);
  const [first] = done.outcome.rows;
  if (first === undefined) return null;
  const row = rowObject(done, first);
  return 'row' in answer ? row : (row[answer.column] ?? null);
}

function holds(step: CompiledStep, outcome: SqlOutcome): boolean {
  if (step.expect === 'row') return outcome.rows.length > 0;
  if (step.expect === 'no_row') return outcome.rows.length === 0;
  if (step.expect === 'change') return outcome.rows.length > 0 || outcome.changes > 0;
  return true;
}

/**
 * Runs a tool's steps in one transaction. A check that does not hold, a constraint or a bound takes back everything and is
 * the answer. The model's values are only ever bound to parameters.
 */
export function runTool(
  connection: Connection,
  tool: CompiledTool,
  given: Readonly<Record<string, unknown>>,
  variables: Readonly<Record<string, unknown>>,
  bounds: SqlBounds,
): LocalToolOutcome {
  const checked = tool.check(given);
  if ('error' in checked) return checked;
  const scope = new CallScope(checked.arguments, variables);
  try {
    connection.exec('BEGIN IMMEDIATE');
    for (const step of tool.steps) {
      const values = Object.fromEntries(step.parameters.map((name) => [name, scope.value(name)]));
      const outcome = execute(connection, step.sql, values, bounds);
      scope.add(step, outcome);
      if (step.error !== undefined && !holds(step, outcome)) throw new ToolRefusal(scope.message(step.error));
    }
    const value = shape(tool.answer, scope);
    connection.exec('COMMIT');
    return { value };
  } catch (error) {
    if (connection.inTransaction) connection.exec('ROLLBACK');
    return {
      error:
        error instanceof ToolRefusal ? error.message : `${tool.name} failed: ${(error as Error).message}`,
    };
  }
}
