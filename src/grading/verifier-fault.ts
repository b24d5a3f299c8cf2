import type { FailureClass } from '../contracts/index.ts';
import type { VerifierAnswer } from '../fleet/environment.ts';

/** What makes an execution's answer worthless. Codes are stable. */
export interface VerifierFault {
  readonly class: Exclude<FailureClass, 'agent'>;
  readonly code:
    'verifier_broken' | 'verifier_raised' | 'verifier_timeout' | 'verifier_unavailable' | 'judge_failed';
  /** One line, the server's own words in it. */
  readonly message: string;
  /** False where the same would come again. */
  readonly retry: boolean;
}

interface Rule extends Omit<VerifierFault, 'message'> {
  /** Exception types; absent: all. */
  readonly types?: RegExp;
  /** What the message must hold; absent: anything. */
  readonly says?: RegExp;
  /** What its traceback must hold; absent: anything. */
  readonly trace?: RegExp;
}

const broken = { class: 'task', code: 'verifier_broken', retry: false } as const;
const raised = { class: 'task', code: 'verifier_raised', retry: true } as const;
const late = { class: 'infra', code: 'verifier_timeout', retry: true } as const;
const unavailable = { class: 'infra', code: 'verifier_unavailable', retry: true } as const;

/**
 * Who answers for an execution that failed: the first rule that fits. The task does where the verifier's source is at
 * fault. Exceptions of its own code are tried again first, since an environment that is half awake gives it values that it
 * does not expect. What nobody knows is ours, so that another environment gets its turn.
 */
export const faultRules: readonly Rule[] = [
  {
    types: /^(?:SyntaxError|IndentationError|TabError|NameError|ImportError|ModuleNotFoundError)$/,
    ...broken,
  },
  { types: /^AttributeError$/, says: /\bmodule '[^']*' has no attribute\b/, ...broken },
  {
    types:
      /^(?:AttributeError|TypeError|KeyError|IndexError|LookupError|AssertionError|ArithmeticError|ZeroDivisionError|OverflowError|FloatingPointError|RecursionError|UnboundLocalError|StopIteration|StopAsyncIteration|NotImplementedError|SystemExit)$/,
    ...raised,
  },
  {
    says: /\bfunction\b.{0,200}\b(?:not found|not defined|not callable|missing|does not exist)\b|\bno (?:such )?function\b|\bnot a function\b/i,
    ...broken,
  },
  { types: /timeout/i, ...late },
  { says: /\btimed[ -]?out\b|\btime-?out\b|\btime limit\b|\bdeadline exceeded\b/i, ...late },
  // The vendor's SDK reads answers of an instance without a look at their status: the page of a failing proxy arrives
  // as a JSON error. One that the verifier's own reading of an answer raised is the verifier's.
  {
    types: /^JSONDecodeError$/,
    trace: /^\s*$|\b(?:fleet|httpx|requests|urllib3)\/|\.json\(\)/,
    ...unavailable,
  },
  {
    types: /^ValueError$/,
    says: /\b50[0234]\b|\bbad gateway\b|\bunavailable\b|\bconnection\b|\bnot running\b/i,
    ...unavailable,
  },
  {
    types: /^(?:ValueError|JSONDecodeError|UnicodeError|UnicodeDecodeError|UnicodeEncodeError)$/,
    ...raised,
  },
  { says: /\bno such (?:table|column)\b/i, ...raised },
  { ...unavailable },
];

/** The judge's wrapper prints this line and makes up a grade of 0. Source: the public OpenEnv source. */
const judgeError = /^(?:\[STDOUT\] )?JUDGE ERROR:.*/m;

const maxMessage = 500;
const maxSearched = 16_384;

/** Text of others on one line, its end cut off. */
function oneLine(text: string): string {
  const line = text
    .slice(0, 4 * maxMessage)
    .replace(/\s+/g, ' ')
    .trim();
  return line.length > maxMessage ? `${line.slice(0, maxMessage)}…` : line;
}

/** What an agent writes that wants to be taken for a judge. */
const judgeWords = /JUDGE ERROR/;

/**
 * null: the execution succeeded, and its result may be read. `agentWrote` tells whether the agent wrote what fits a
 * pattern: the line of a judge that failed may then be the agent's, who would rather have no reward than a 0.
 */
export function faultOf(
  answer: VerifierAnswer,
  agentWrote: (pattern: RegExp) => boolean = () => false,
): VerifierFault | null {
  const judge = judgeError.exec(answer.stdout);
  if (judge !== null && !agentWrote(judgeWords)) {
    return {
      class: 'infra',
      code: 'judge_failed',
      message: `the verifier's judge failed: ${oneLine(judge[0])}`,
      retry: true,
    };
  }
  if (answer.success) return null;
  const type = answer.error?.type ?? '';
  // A class may come with its module: sqlite3.OperationalError.
  const name = type.slice(type.lastIndexOf('.') + 1).trim();
  const message = (answer.error?.message ?? '').slice(0, maxSearched);
  const traceback = (answer.error?.traceback ?? '').slice(-maxSearched);
  const rule = faultRules.find(
    ({ types, says, trace }) =>
      (types?.test(name) ?? true) && (says?.test(message) ?? true) && (trace?.test(traceback) ?? true),
  )!;
  const said = oneLine([type, message].filter((part) => part.trim() !== '').join(': '));
  return {
    class: rule.class,
    code: rule.code,
    retry: rule.retry,
    message: `the verifier failed: ${said === '' ? 'the server gave no reason' : said}`,
  };
}
