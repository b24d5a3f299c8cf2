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

/** A line whenever the numbers of episodes changed, at most one in `everyMs`; `stop` writes the last one. */
function lineDisplay(write: (line: string) => void, everyMs: number): ProgressDisplay {
  let written = '';
  let writtenAt = -Infinity;
  let latest: { readonly key: string; readonly line: string } | undefined;
  const flush = (): void => {
    if (latest === undefined || latest.key === written) return;
    written = latest.key;
    writtenAt = performance.now();
    write(latest.line);
  };
  return {
    show(snapshot) {
      const { running, failed, reward, rate } = fields(snapshot);
      latest = {
        key: `${snapshot.done} ${snapshot.total} ${running} ${failed}`,
        line: `${snapshot.done}/${snapshot.total} episodes, ${running} running, ${failed} failed, reward ${reward}, ${rate} tokens/s`,
      };
      if (performance.now() - writtenAt >= everyMs) flush();
    },
    stop: flush,
  };
}

/** Live on a terminal, plain lines elsewhere (at most one in `everyMs`, default 2000); nothing when `quiet`. */
export function createProgress(stream: NodeJS.WriteStream, quiet: boolean, everyMs = 2_000): ProgressDisplay {
  if (quiet) return { show: () => {}, stop: () => {} };
  return stream.isTTY ? barDisplay(stream) : lineDisplay((line) => stream.write(`${line}\n`), everyMs);
}
