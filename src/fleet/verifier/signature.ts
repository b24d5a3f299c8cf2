import { EpisodeError } from '../../contracts/index.ts';
import { pythonTokens, UnclosedStringError, type PythonToken } from './python-tokens.ts';

/** What of a verifier's function a call must know. */
export interface VerifierSignature {
  readonly name: string;
  /** Names of its parameters in order, positional-only and keyword-only ones among them, `*args` and `**kwargs` not. */
  readonly parameters: readonly string[];
  /** It has `**kwargs`: any keyword may be passed. */
  readonly any_keyword: boolean;
}

/** A verifier that cannot be called, whatever the environment: its author's fault. One line. */
export class VerifierSourceError extends EpisodeError {
  /** What the verifier is or does, for a message that has named it already: `defines no function at its top level`. */
  readonly problem: string;

  constructor(problem: string) {
    super({ class: 'task', phase: 'grade', code: 'verifier_source', message: `the verifier ${problem}` });
    this.name = 'VerifierSourceError';
    this.problem = problem;
  }
}

function lineOf(source: string, at: number): number {
  return source.slice(0, at).split(/\r\n|\n|\r/).length;
}

type Tokens = Generator<PythonToken, void, void>;

function next(tokens: Tokens): PythonToken | null {
  const step = tokens.next();
  return step.done ? null : step.value;
}

/** Takes everything up to the bracket that closes an open one. False when it is never closed. */
function skipBrackets(tokens: Tokens): boolean {
  for (let depth = 1, token = next(tokens); token !== null; token = next(tokens)) {
    if ('([{'.includes(token.text)) depth += 1;
    else if (')]}'.includes(token.text)) depth -= 1;
    if (depth === 0) return true;
  }
  return false;
}

/** The parameters behind an open `(`; null when it is never closed. */
function readParameters(tokens: Tokens): Omit<VerifierSignature, 'name'> | null {
  const parameters: string[] = [];
  let any_keyword = false;
  let stars = 0;
  let named = false;
  // The parameters of a lambda in a default have commas too, up to its colon.
  let lambdas = 0;
  for (let depth = 1, token = next(tokens); token !== null; token = next(tokens)) {
    const { kind, text } = token;
    if (kind === 'string') continue;
    if ('([{'.includes(text)) depth += 1;
    else if (')]}'.includes(text)) depth -= 1;
    if (depth === 0) return { parameters, any_keyword };
    if (depth > 1) continue;
    if (text === 'lambda') lambdas += 1;
    else if (text === ':' && lambdas > 0) lambdas -= 1;
    else if (text === ',' && lambdas === 0) {
      stars = 0;
      named = false;
    } else if (!named && text === '*') stars += 1;
    else if (!named && kind === 'name') {
      named = true;
      if (stars === 0) parameters.push(text.normalize('NFKC'));
      else if (stars === 2) any_keyword = true;
    }
  }
  return null;
}

/** The function whose `def` was just taken; null when its header is not one. */
function readHeader(tokens: Tokens): VerifierSignature | null {
  const name = next(tokens);
  if (name?.kind !== 'name') return null;
  let open = next(tokens);
  // Type parameters.
  if (open?.text === '[') open = skipBrackets(tokens) ? next(tokens) : null;
  const rest = open?.text === '(' ? readParameters(tokens) : null;
  return rest === null ? null : { name: name.text.normalize('NFKC'), ...rest };
}

/**
 * The first function, sync or async, that the source defines at its top level: the one the wire's `function_name` names.
 *
 * @throws VerifierSourceError when there is none.
 */
export function readSignature(source: string): VerifierSignature {
  if (source.trim() === '') throw new VerifierSourceError('is empty');
  // Python refuses both, wherever they stand.
  if (source.includes('\0')) throw new VerifierSourceError('has a NUL character in it');
  if (/\p{Surrogate}/u.test(source)) throw new VerifierSourceError('has half of a character in it');
  try {
    const tokens = pythonTokens(source);
    for (let token = next(tokens); token !== null; token = next(tokens)) {
      if (token.indent !== 0 || token.kind !== 'name') continue;
      const { at } = token;
      if (token.text === 'async') token = next(tokens);
      if (token?.text !== 'def') {
        if (token === null) break;
        continue;
      }
      const signature = readHeader(tokens);
      if (signature !== null) return signature;
      throw new VerifierSourceError(
        `has a function in line ${lineOf(source, at)} whose parameters cannot be read`,
      );
    }
  } catch (fault) {
    // Strings inside of strings, as deep as the stack.
    if (fault instanceof RangeError) throw new VerifierSourceError('is nested too deeply');
    if (!(fault instanceof UnclosedStringError)) throw fault;
    throw new VerifierSourceError(`has a string in line ${lineOf(source, fault.at)} that is never closed`);
  }
  throw new VerifierSourceError('defines no function at its top level');
}
