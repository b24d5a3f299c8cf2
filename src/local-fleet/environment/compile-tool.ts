import { argumentCheck, type ArgumentCheck } from './arguments.ts';
import type { LocalTool } from './environment.ts';
import { EnvironmentFolderError } from './folder-error.ts';
import type { Answer, Step, ToolDefinition } from './folder-format.ts';
import { scanSql } from './sql-scan.ts';
import { columnsOf, type Connection } from './sqlite.ts';

export interface CompiledStep extends Step {
  /** With their sign. */
  readonly parameters: readonly string[];
  readonly columns: readonly string[];
}

/** A tool whose every statement, parameter and column has been checked against the schema. */
export interface CompiledTool extends LocalTool {
  readonly check: ArgumentCheck;
  readonly steps: readonly CompiledStep[];
  readonly answer: Answer;
}

/** What parameters of a tool may name. */
interface Scope {
  readonly properties: ReadonlySet<string>;
  readonly variables: ReadonlySet<string>;
  /** Step -> its columns. */
  readonly steps: ReadonlyMap<string, readonly string[]>;
}

const reading = new Set(['SELECT', 'WITH', 'VALUES']);
const writing = new Set(['INSERT', 'REPLACE', 'UPDATE', 'DELETE']);

/** `{:argument}`, `{@VARIABLE}` and `{$step_column}` in a message. */
export const placeholder = /\{([:@$][A-Za-z_]\w*)\}/g;

/** `$loan_due_date` -> step `loan`, column `due_date`. */
export function stepColumn(parameter: string): { readonly step: string; readonly column: string } {
  const at = parameter.indexOf('_');
  return at === -1
    ? { step: parameter.slice(1), column: '' }
    : { step: parameter.slice(1, at), column: parameter.slice(at + 1) };
}

/** Why a parameter means nothing here, or null. */
function unknownParameter(parameter: string, scope: Scope): string | null {
  const name = parameter.slice(1);
  if (parameter.startsWith(':'))
    return scope.properties.has(name) ? null : `${parameter} is no property of input_schema`;
  if (parameter.startsWith('@'))
    return scope.variables.has(name) ? null : `${parameter} is no variable of environment.json`;
  const { step, column } = stepColumn(parameter);
  const columns = scope.steps.get(step);
  if (columns === undefined) return `${parameter}: no step before is called ${step}`;
  return columns.includes(column) ? null : `${parameter}: step ${step} has no column ${column}`;
}

function checkMessage(message: string, where: string, scope: Scope): void {
  for (const [, parameter] of message.matchAll(placeholder)) {
    const fault = unknownParameter(parameter ?? '', scope);
    if (fault !== null) throw new EnvironmentFolderError(`${where}: ${fault}`);
  }
}

function checkAnswer(answer: Answer, where: string, scope: Scope): void {
  if ('object' in answer) {
    for (const [key, inner] of Object.entries(answer.object))
      checkAnswer(inner, `${where}.object.${key}`, scope);
    return;
  }
  if ('text' in answer) {
    checkMessage(answer.text, `${where}.text`, scope);
    return;
  }
  const [kind, step] = Object.entries(answer)[0] as [string, string];
  const columns = scope.steps.get(step);
  if (columns === undefined)
    throw new EnvironmentFolderError(`${where}.${kind}: no step is called ${step} (with "as")`);
  if ('column' in answer && !columns.includes(answer.column))
    throw new EnvironmentFolderError(`${where}.column: step ${step} has no column ${answer.column}`);
  if ((kind === 'rows' || kind === 'row') && columns.length === 0)
    throw new EnvironmentFolderError(`${where}.${kind}: step ${step} gives no rows`);
}

function compileStep(step: Step, where: string, scope: Scope, schema: Connection): CompiledStep {
  const fail = (field: string, message: string, cause?: unknown): never => {
    throw new EnvironmentFolderError(`${where}.${field}: ${message}`, cause);
  };
  const { keyword, several, parameters, positional } = scanSql(step.sql);
  if (several) fail('sql', 'must be one statement; further ones are steps of their own');
  if (!reading.has(keyword) && !writing.has(keyword))
    fail('sql', `must be SELECT, INSERT, UPDATE, DELETE or WITH, not ${keyword || 'nothing'}`);
  if (positional) fail('sql', 'takes named parameters, not ?');
  for (const parameter of parameters) {
    const fault = unknownParameter(parameter, scope);
    if (fault !== null) fail('sql', fault);
  }
  let columns: string[] = [];
  try {
    columns = columnsOf(schema, step.sql);
  } catch (cause) {
    fail('sql', (cause as Error).message, cause);
  }
  const twice = columns.find((column, index) => columns.indexOf(column) !== index);
  if (twice !== undefined) fail('sql', `two columns are called ${twice}: name them with AS`);
  if (step.expect === 'change' ? reading.has(keyword) && keyword !== 'WITH' : false)
    fail('expect', 'a statement that only reads changes nothing');
  if ((step.expect === 'row' || step.expect === 'no_row') && columns.length === 0)
    fail('expect', 'the statement gives no rows');
  for (const column of step.json) if (!columns.includes(column)) fail('json', `there is no column ${column}`);
  return { ...step, parameters, columns };
}

/**
 * Checks a tool against the schema's (empty) database. Throws EnvironmentFolderError that begins with `where`, such as
 * `tools.json: tools[3]`.
 */
export function compileTool(
  tool: ToolDefinition,
  where: string,
  variables: ReadonlySet<string>,
  schema: Connection,
): CompiledTool {
  let check: ArgumentCheck;
  try {
    check = argumentCheck(tool.input_schema);
  } catch (cause) {
    throw new EnvironmentFolderError(`${where}.input_schema: ${(cause as Error).message}`, cause);
  }
  const named = new Map<string, readonly string[]>();
  const scope: Scope = {
    properties: new Set(Object.keys(tool.input_schema.properties)),
    variables,
    steps: named,
  };
  const steps = tool.steps.map((step, index) => {
    const at = `${where}.steps[${index}]`;
    if (step.as !== undefined && named.has(step.as))
      throw new EnvironmentFolderError(`${at}.as: another step is called ${step.as}`);
    const compiled = compileStep(step, at, scope, schema);
    if (step.as !== undefined) named.set(step.as, compiled.columns);
    // A message may name the step it belongs to: "You have {$loans_count} loans".
    if (step.error !== undefined) checkMessage(step.error, `${at}.error`, scope);
    return compiled;
  });
  checkAnswer(tool.answer, `${where}.answer`, scope);
  return {
    name: tool.name,
    description: tool.description,
    inputSchema: tool.input_schema,
    annotations: { readOnlyHint: tool.steps.every((step) => scanSql(step.sql).keyword === 'SELECT') },
    check,
    steps,
    answer: tool.answer,
  };
}
