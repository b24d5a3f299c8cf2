import { PassThrough } from 'node:stream';
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { createProgress, type Snapshot } from '../../src/cli/progress.ts';

function stream(terminal: boolean): { readonly stream: NodeJS.WriteStream; readonly text: () => string } {
  const written = new PassThrough();
  const fake = Object.assign(written, {
    isTTY: terminal,
    columns: 120,
    rows: 24,
    cursorTo: () => true,
    moveCursor: () => true,
    clearLine: () => true,
    clearScreenDown: () => true,
  });
  let text = '';
  written.setEncoding('utf8').on('data', (piece: string) => (text += piece));
  return {
    stream: fake as unknown as NodeJS.WriteStream,
    text: () => ((text += written.read() ?? ''), text),
  };
}

const at = (done: number, more: Partial<Snapshot> = {}): Snapshot => ({
  total: 4,
  done,
  running: 4 - done,
  failed: 0,
  reward_mean: done === 0 ? null : 0.5,
  tokens_per_s: 12.4,
  ...more,
});

describe('progress', () => {
  beforeEach(() => void vi.useFakeTimers({ toFake: ['performance', 'setTimeout', 'setInterval'] }));
  afterEach(() => void vi.useRealTimers());

  test('away from a terminal is a line at most every two seconds, and always the last one', () => {
    const { stream: to, text } = stream(false);
    const progress = createProgress(to, false);
    progress.show(at(0));
    for (const done of [1, 2, 3]) {
      vi.advanceTimersByTime(500);
      progress.show(at(done));
    }
    vi.advanceTimersByTime(500);
    progress.show(at(3));
    progress.show(at(4));
    progress.stop();
    progress.stop();
    expect(text().split('\n')).toEqual([
      '0/4 episodes, 4 running, 0 failed, reward -, 12 tokens/s',
      '3/4 episodes, 1 running, 0 failed, reward 0.500, 12 tokens/s',
      '4/4 episodes, 0 running, 0 failed, reward 0.500, 12 tokens/s',
      '',
    ]);
  });

  test('says nothing again while nothing changes', () => {
    const { stream: to, text } = stream(false);
    const progress = createProgress(to, false);
    for (let second = 0; second < 10; second += 1) {
      progress.show(at(1, { tokens_per_s: second }));
      vi.advanceTimersByTime(1_000);
    }
    progress.stop();
    expect(text().match(/\n/g)).toHaveLength(1);
  });

  test('on a terminal is a bar', () => {
    const { stream: to, text } = stream(true);
    const progress = createProgress(to, false);
    progress.show(at(1));
    progress.show(at(2, { failed: 1 }));
    progress.stop();
    expect(text()).toContain('2/4 episodes | 2 running | 1 failed | reward 0.500 | 12 tokens/s');
  });

  test('is not shown beside JSON', () => {
    const { stream: to, text } = stream(true);
    const progress = createProgress(to, true);
    progress.show(at(1));
    progress.stop();
    expect(text()).toBe('');
  });
});
