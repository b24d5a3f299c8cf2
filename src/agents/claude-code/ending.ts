import type { AgentOutcome } from '../agent.ts';
import { redact } from './output-tail.ts';
import type { ResultEvent } from './progress.ts';

export interface EndingInput {
  /** Exit code of the CLI; 128 + n for signal n; null when nobody knows it or we ended a CLI that had had its last word. */
  readonly exitCode: number | null;
  /** True when the CLI gave its result and then did not exit, so that we ended it. */
  readonly lingered: boolean;
  readonly result: ResultEvent | null;
  /** A line too long to read may have been the result. */
  readonly oversizedLines: number;
  /** Calls the gateway has seen. */
  readonly calls: number;
  readonly stderrTail: string;
  readonly secrets: readonly string[];
}

const detailChars = 2_000;
const finalAnswerChars = 65_536;

/** Warnings that every run prints and that explain nothing. */
const noise = /^\[claude-code:unrecognized_model\].*$/gm;

const signalNames: Readonly<Record<number, string>> = {
  2: 'SIGINT',
  6: 'SIGABRT',
  9: 'SIGKILL',
  11: 'SIGSEGV',
  15: 'SIGTERM',
};

function exitWords(exitCode: number | null): string {
  if (exitCode === null) return 'ended without an exit code';
  if (exitCode <= 128) return `exited with ${exitCode}`;
  return `was killed by ${signalNames[exitCode - 128] ?? `signal ${exitCode - 128}`}`;
}

function resultWords(result: ResultEvent): string {
  const reason = result.terminal_reason ?? result.subtype;
  const said = [...result.errors, result.result ?? ''].filter((text) => text !== '').join('; ');
  return said === '' ? reason : `${reason}: ${said}`;
}

/**
 * What an erroneous result means. Its `subtype` is "success" for API failures and its `stop_reason` is then
 * "stop_sequence": the terminal reason decides, and the error code or the CLI's own words where that is only "api_error".
 */
function endingOfError(result: ResultEvent): AgentOutcome['ending'] {
  if (result.stop_reason === 'refusal') return 'refusal';
  switch (result.terminal_reason) {
    case 'max_turns':
      return 'max_turns';
    case 'prompt_too_long':
    case 'blocking_limit':
      return 'context_overflow';
  }
  if (result.subtype === 'error_max_turns') return 'max_turns';
  if (result.api_error === 'max_output_tokens') return 'max_tokens';
  if (/response exceeded the \d+ output token maximum/.test(result.result ?? '')) return 'max_tokens';
  return 'agent_error';
}

/** The agent's own account of its end, by result event, exit code and calls seen: the CLI's rows of the outcome table. */
export function mapEnding(input: EndingInput): Pick<AgentOutcome, 'ending' | 'detail' | 'final_answer'> {
  const { result, exitCode } = input;
  const explain = (...words: string[]): string => {
    const stderr = input.stderrTail.replace(noise, '').trim();
    const text = [...words, ...(stderr === '' ? [] : [`stderr: ${stderr}`])].join('; ');
    return redact(text, input.secrets).slice(0, detailChars);
  };
  const exit = `the CLI ${exitWords(exitCode)}`;

  if (input.calls === 0) {
    const words = result === null ? [] : [resultWords(result)];
    return {
      ending: 'agent_error',
      detail: explain('the CLI made no model call', exit, ...words),
      final_answer: null,
    };
  }
  if (result === null) {
    if (exitCode === 0 && input.oversizedLines > 0) {
      return { ending: 'agent_done', detail: '', final_answer: null };
    }
    return { ending: 'agent_error', detail: explain(exit, 'it gave no result'), final_answer: null };
  }
  const answer = redact(result.result ?? '', input.secrets).slice(-finalAnswerChars);
  if (result.is_error || result.stop_reason === 'refusal') {
    return { ending: endingOfError(result), detail: explain(exit, resultWords(result)), final_answer: null };
  }
  if (exitCode === 0 || input.lingered) return { ending: 'agent_done', detail: '', final_answer: answer };
  return { ending: 'agent_error', detail: explain(`${exit} after its result`), final_answer: answer };
}
