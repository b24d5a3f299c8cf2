import type { ResultSummary } from '../contracts/index.ts';
import { createConsumer, DeliveriesLostError, type Consumer } from '../queue/consumer/index.ts';
import type { Delivered, QueueOptions, RolloutQueue, RunStatus } from '../queue/index.ts';
import { openResultFile } from './result-file.ts';

export interface CollectOptions {
  readonly queue: RolloutQueue;
  readonly options: QueueOptions;
  readonly run_id: string;
  /** Where the lines go; written anew. */
  readonly path: string;
  /** About twice a second. */
  readonly onStatus?: (status: RunStatus) => void;
  /** Stops collecting: what is there by then stays. */
  readonly signal?: AbortSignal;
}

const statusMs = 500;

/** The place of a result in its run: a new generation takes the place of what it repeats. */
function placeOf(result: ResultSummary): string {
  return JSON.stringify([result.batch_id, result.task_key, result.sample_index]);
}

/**
 * Writes every result of a run as it comes, until the run is done or the signal aborts; gives the summaries. The file ends
 * with one line for each sample: where a repeated episode took the place of an earlier one, it is written once more.
 */
export async function collectResults(options: CollectOptions): Promise<ResultSummary[]> {
  const { queue, run_id, signal } = options;
  await using consumer = await createConsumer(options.options);
  const results = new Map<string, ResultSummary>();
  let rewrite = false;

  const showStatus = async (): Promise<boolean> => {
    const status = await queue.runStatus(run_id);
    if (status !== null) options.onStatus?.(status);
    return status?.done === true;
  };
  let round: Promise<unknown> = Promise.resolve();
  const timer = setInterval(() => {
    // A look that fails is repeated half a second later; the one that matters is `endWhen`.
    round = round.then(showStatus).catch(() => {});
  }, statusMs);
  try {
    await using file = await openResultFile(options.path);
    const follow = { run_id, endWhen: showStatus, ...(signal === undefined ? {} : { signal }) };
    try {
      for await (const delivered of consumer.followResults(follow)) {
        const place = placeOf(delivered.summary);
        rewrite ||= results.has(place);
        results.set(place, delivered.summary);
        await file.write(delivered.summary, await payloadOf(consumer, delivered));
      }
    } catch (error) {
      if (!(error instanceof DeliveriesLostError)) throw error;
      rewrite = true;
    }
  } finally {
    clearInterval(timer);
    await round;
  }
  // Awaited here: the consumer is closed when this returns.
  return rewrite ? await writeAll(consumer, run_id, options.path) : [...results.values()];
}

/** Writes every result that a run has now, each sample once. */
export async function writeAll(consumer: Consumer, run_id: string, path: string): Promise<ResultSummary[]> {
  const results: ResultSummary[] = [];
  await using file = await openResultFile(path);
  for await (const delivered of consumer.listResults(run_id)) {
    results.push(delivered.summary);
    await file.write(delivered.summary, await payloadOf(consumer, delivered));
  }
  return results;
}

async function payloadOf(consumer: Consumer, delivered: Delivered): Promise<Uint8Array | null> {
  return delivered.payload === null ? null : consumer.fetchPayload(delivered.payload);
}
