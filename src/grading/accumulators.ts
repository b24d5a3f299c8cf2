import { parsePythonLiteral, PythonLiteralError, type PythonValue } from './python-literal.ts';

/**
 * Why there is no part of a reward: `absent`: nothing of the kind was printed; `malformed`: a list that cannot be read;
 * `ambiguous`: lists of one name that differ; `no_checks`: nothing was checked, or only what needed no work;
 * `contradicts_score`: every check passed, and the verifier still gave 0.
 */
export type NoPartialReward = 'absent' | 'malformed' | 'ambiguous' | 'no_checks' | 'contradicts_score';
export type PartialReward =
  | {
      /** From 0 to 1, 1 not included. */
      readonly reward: number;
    }
  | { readonly none: NoPartialReward };

/** What a text must hold to be taken for any of the marks below. */
export const partialMarks = /_ACCUMULATOR|App \S+: \d/;

/** Characters of output that are looked at; a list of checks has some thousands. */
const longestOutput = 4 * 2 ** 20;

type Checks = readonly PythonValue[];
type Found = { readonly checks: Checks } | { readonly none: 'malformed' | 'ambiguous' } | null;

/**
 * Successes that say only that an app was left alone, as a task that needs no work there passes. Source: the public
 * OpenEnv source, fleet environment, partial rewards of verifiers over several apps.
 */
const trivialMarks = ['no unexpected changes', 'no filesystem changes', 'no-unexpected-envelopes'];

/** The list between two marker lines; null when there are none. Judges print the first marker with a prefix. */
function readList(text: string, name: 'ERROR_ACCUMULATOR' | 'SUCCESS_ACCUMULATOR'): Found {
  const open = new RegExp(`^(?:\\[STDOUT\\] )?>>> ${name} >>>$`, 'gm');
  const close = `\n<<< ${name} <<<`;
  const bodies = new Set<string>();
  for (let start = open.exec(text); start !== null; start = open.exec(text)) {
    const from = start.index + start[0].length;
    const end = text.indexOf(close, from);
    if (end === -1) return { none: 'malformed' };
    bodies.add(text.slice(from, end).trim());
  }
  const [body] = bodies;
  if (body === undefined) return null;
  // What the agent wrote may be among what a verifier prints: it must not choose which list counts.
  if (bodies.size > 1) return { none: 'ambiguous' };
  try {
    const value = parsePythonLiteral(body);
    return Array.isArray(value) ? { checks: value as Checks } : { none: 'malformed' };
  } catch (error) {
    if (!(error instanceof PythonLiteralError)) throw error;
    return { none: 'malformed' };
  }
}

function isTrivial(check: PythonValue): boolean {
  if (typeof check !== 'string') return false;
  const said = check.toLowerCase();
  return trivialMarks.some((mark) => said.includes(mark));
}

function fraction(passed: number, total: number): PartialReward {
  if (total === 0) return { none: 'no_checks' };
  return passed === total ? { none: 'contradicts_score' } : { reward: passed / total };
}

/** Passed apps of all apps that had work to do. */
function fromApps(text: string, apps: readonly RegExpMatchArray[]): PartialReward {
  const results = new Map<string, string>();
  for (const [, name = '', result = ''] of apps) {
    if ((results.get(name) ?? result) !== result) return { none: 'ambiguous' };
    results.set(name, result);
  }
  let passed = 0;
  let total = 0;
  for (const [name, result] of results) {
    if (result !== '0' && result !== '1') return { none: 'malformed' };
    if (result === '1') {
      const from = text.indexOf(`<<< VERIFY_${name} <<<`);
      const to = from === -1 ? -1 : text.indexOf(`>>> VERIFY_${name} >>>`, from);
      const list = to === -1 ? null : readList(text.slice(from, to), 'SUCCESS_ACCUMULATOR');
      if (list !== null && 'none' in list) return list;
      const checks = list?.checks ?? [];
      if (checks.length > 0 && checks.every(isTrivial)) continue;
      passed += 1;
    }
    total += 1;
  }
  return fraction(passed, total);
}

/**
 * The part of a reward that a verifier's output shows although its score is 0: successes of all checks, by the lists it
 * prints between `>>> SUCCESS_ACCUMULATOR >>>` and `<<< SUCCESS_ACCUMULATOR <<<`, and the same for `ERROR_ACCUMULATOR`.
 * A verifier over several apps prints lines `App <name>: 0` or `1` instead; then it is passed apps of all apps, those
 * left out whose every success says that nothing was to change. Never guesses: what cannot be read gives none.
 */
export function partialReward(stdout: string): PartialReward {
  if (stdout.length > longestOutput) return { none: 'malformed' };
  const text = stdout.replaceAll('\r\n', '\n');
  const apps = [...text.matchAll(/^App (\S+): (\d+)$/gm)];
  if (apps.length > 0) return fromApps(text, apps);
  const errors = readList(text, 'ERROR_ACCUMULATOR');
  const successes = readList(text, 'SUCCESS_ACCUMULATOR');
  if (errors === null && successes === null) return { none: 'absent' };
  if (errors !== null && 'none' in errors) return errors;
  if (successes !== null && 'none' in successes) return successes;
  const passed = successes?.checks.length ?? 0;
  return fraction(passed, passed + (errors?.checks.length ?? 0));
}
