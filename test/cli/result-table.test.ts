import { PassThrough } from 'node:stream';
import { describe, expect, test } from 'vitest';
import { printFailures, printResultTable } from '../../src/cli/result-table.ts';
import type { ResultSummary } from '../../src/contracts/index.ts';
import { resultSummary } from '../support/result-summary.ts';

type Print = (results: readonly ResultSummary[], stream: NodeJS.WritableStream) => void;

function printed(print: Print, results: readonly ResultSummary[]): string {
  const stream = new PassThrough();
  print(results, stream);
  return String(stream.read() ?? '');
}

const failed = (task: string, message: string): ResultSummary =>
  resultSummary({
    task_key: task,
    status: 'failed',
    stop_reason: 'task_error',
    reward: null,
    grades: { exact: 0, forked: 0, untrainable: 0 },
    failure: { class: 'task', phase: 'boot', code: 'image_missing', message, retryable: false },
  });

describe('the table of a run', () => {
  test('has a row for each task and one for all', () => {
    const text = printed(printResultTable, [
      resultSummary({ group_size: 2, metrics: { turns: 3, followed_calls: 2, forked_calls: 0 } }),
      resultSummary({
        group_size: 2,
        sample_index: 1,
        reward: 0,
        metrics: { turns: 3, followed_calls: 2, forked_calls: 1 },
      }),
      failed('other', 'no'),
    ]);
    const rows = text.split('\n').map((line) =>
      line
        .split('│')
        .map((cell) => cell.trim())
        .filter(Boolean),
    );
    expect(rows).toContainEqual([
      'task',
      '2',
      '0.50',
      '0.50',
      '1.00',
      '3.0',
      '120',
      'exact 2',
      '25.0 %',
      '-',
    ]);
    expect(rows).toContainEqual(['other', '1', '-', '-', '-', '3.0', '60', '-', '-', 'image_missing 1']);
    expect(rows.some(([first, n]) => first === 'all' && n === '3')).toBe(true);
  });

  test('is followed by each cause of failure once', () => {
    const text = printed(printFailures, [
      resultSummary(),
      failed('a', 'x is not on this machine'),
      failed('b', 'x is not on this machine'),
      failed('c', 'y is not on this machine'),
    ]);
    expect(text).toBe(
      'a and 1 more (2 episodes): image_missing: x is not on this machine\nc: image_missing: y is not on this machine\n',
    );
  });

  test('names only the first ten causes', () => {
    const many = Array.from({ length: 12 }, (_none, index) => failed(`t${index}`, `cause ${index}`));
    expect(printed(printFailures, many).trimEnd().split('\n').at(-1)).toBe('and 2 other causes');
  });
});
