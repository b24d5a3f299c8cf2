import { SingleBar } from 'cli-progress';

/** What is known of a run at one moment. */
export interface Snapshot {
  readonly total: number;
  readonly done: number;
  readonly running: number;
  readonly failed: number;
  /** Mean over episodes with a reward; null before the first. */
  readonly reward_mean: number | null;
  readonly tokens_per_s: number;
}

export interface ProgressDisplay {
  show(snapshot: Snapshot): void;
  stop(): void;
}

function fields(snapshot: Snapshot): Record<string, string> {
  return {
    running: String(snapshot.running),
    failed: String(snapshot.failed),
    reward: snapshot.reward_mean === null ? '-' : snapshot.reward_mean.toFixed(3),
    rate: snapshot.tokens_per_s.toFixed(0),
  };
}

/** A bar that is redrawn in place. */
function barDisplay(stream: NodeJS.WriteStream): ProgressDisplay {
  const bar = new SingleBar({
    stream,
    hideCursor: true,
    format:
      '{bar} {value}/{total} episodes | {running} running | {failed} failed | reward {reward} | {rate} tokens/s',
    barsize: 24,
  });
  let started = false;
  return {
    show(snapshot) {
      if (!started) {
        bar.start(snapshot.total, snapshot.done, fields(snapshot));
        started = true;
      }
      bar.setTotal(snapshot.total);
      bar.update(snapshot.done, fields(snapshot));
    },
    stop() {
      if (started) bar.stop();
    },
  };
}

/** One line whenever the numbers of episodes changed, at most one in `everyMs`, and always the last. */
function lineDisplay(write: (line: string) => void, everyMs: number): ProgressDisplay {
  let last = '';
  let lastAt = -Infinity;
  let pending: string | undefined;
  return {
    show(snapshot) {
      const { running, failed, reward, rate } = fields(snapshot);
      const line = `${snapshot.done}/${snapshot.total} episodes, ${running} running, ${failed} failed, reward ${reward}, ${rate} tokens/s`;
      const key = `${snapshot.done} ${running} ${failed}`;
      if (key === last) return;
      pending = line;
      if (performance.now() - lastAt < everyMs) return;
      last = key;
      lastAt = performance.now();
      pending = undefined;
      write(line);
    },
    stop() {
      if (pending !== undefined) write(pending);
    },
  };
}

/** Live on a terminal, plain lines elsewhere; nothing when `quiet`. */
export function createProgress(stream: NodeJS.WriteStream, quiet: boolean): ProgressDisplay {
  if (quiet) return { show: () => {}, stop: () => {} };
  return stream.isTTY ? barDisplay(stream) : lineDisplay((line) => stream.write(`${line}\n`), 2_000);
}
