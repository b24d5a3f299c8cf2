import { randomBytes } from 'node:crypto';
import { DelayedError, WaitingError, type Job } from 'bullmq';
import type { Failure, Lane, SamplingOverrides } from '../../contracts/index.ts';
import { crashPoint } from '../../observe/index.ts';
import { claimEpisode, type Claim } from '../lua/claim.ts';
import { releaseEpisode } from '../lua/release.ts';
import { nullSummary, type NullReason } from '../null-summary.ts';
import { AbortCause, type EpisodeOutput } from '../processor.ts';
import { decide, retryDelay } from './decide.ts';
import { backToWait, isMove, putAside, readEpisodeJob } from './job-moves.ts';
import { LiveJob } from './live-episodes.ts';
import { withinPublishDeadline } from './publish-deadline.ts';
import type { EpisodeReturn, RunnerParts, Taken } from './runner-parts.ts';
import { within } from './within.ts';

/** Takes one episode job through the publish protocol (design.md 4). */
export class EpisodeRunner {
  readonly #parts: RunnerParts;
  /** Set at shutdown: jobs that still arrive go straight back. */
  closing = false;

  constructor(parts: RunnerParts) {
    this.#parts = parts;
  }

  async run(lane: Lane, bull: Job, token: string, signal: AbortSignal | undefined): Promise<EpisodeReturn> {
    if (this.closing) return backToWait(bull, token);
    const job = readEpisodeJob(bull);
    if (job === null) {
      this.#parts.log.info({ job: bull.id }, 'job of a newer schema handed back');
      return putAside(bull, token, this.#parts.timings.handBackMs);
    }
    const { onlyRun } = this.#parts;
    if (onlyRun !== undefined && job.run_id !== onlyRun) {
      return putAside(bull, token, this.#parts.timings.otherRunMs);
    }
    const live = new LiveJob({
      episode_id: job.episode_id,
      group_id: job.group_id,
      run_id: job.run_id,
      lane,
      token,
      nonce: randomBytes(12).toString('hex'),
    });
    const { live: registry, gate, timings, log } = this.#parts;
    const taken: Taken = { bull, token, job, live };
    const stop = (): void => {
      live.abort(new AbortCause('shutdown', 'cancelled through BullMQ'));
    };
    signal?.addEventListener('abort', stop, { once: true });
    const twin = registry.enter(live);
    let leaveGate: (() => void) | undefined;
    try {
      if (twin !== undefined && !(await within(twin.settled, timings.twinMs))) {
        log.error({ episode: job.episode_id }, 'the older copy of an episode does not end');
        return await putAside(taken.bull, taken.token, timings.handBackMs);
      }
      try {
        leaveGate = await gate.enter(live.signal);
      } catch {
        return await this.#abortedBeforeClaim(taken);
      }
      return await this.#claimAndRun(taken);
    } catch (error) {
      return await this.#unexpected(taken, error);
    } finally {
      leaveGate?.();
      signal?.removeEventListener('abort', stop);
      registry.leave(live);
    }
  }

  async #claimAndRun(taken: Taken): Promise<EpisodeReturn> {
    const { job, live } = taken;
    const { redis, names, worker, maxAttempts, timings } = this.#parts;
    crashPoint('claim:before');
    const claim: Claim = await claimEpisode(redis, names, job, {
      nonce: live.nonce,
      worker,
      lane: live.lane,
      now: Date.now(),
      maxAttempts,
    });
    crashPoint('claim:after');
    switch (claim.verdict) {
      case 'end':
        return { verdict: 'end' };
      case 'published':
        await this.#parts.publisher.announce(job.episode_id);
        return { verdict: 'dup' };
      case 'paused':
        return putAside(taken.bull, taken.token, timings.parkMs);
      case 'ended':
        return this.#publishNull(taken, claim.attempts, { ended: claim.reason });
      case 'exhausted':
        return this.#publishNull(taken, claim.attempts, {
          failure: {
            class: 'infra',
            phase: 'queue',
            code: 'attempts_exhausted',
            message: `started ${claim.attempts} times without a result${lastFailure(claim.lastFailure)}`,
            retryable: true,
          },
        });
      case 'run':
        live.attempt = claim.attempts;
        return this.#attempt(taken);
    }
  }

  async #attempt(taken: Taken): Promise<EpisodeReturn> {
    const { bull, job, live } = taken;
    const { maxAttempts, timings } = this.#parts;
    let outcome: { output: EpisodeOutput } | { error: unknown };
    try {
      outcome = { output: await this.#process(taken) };
    } catch (error) {
      outcome = { error };
    }
    for (;;) {
      const retryDelayMs = retryDelay(live.attempt, timings.retryBaseMs, timings.retryMaxMs);
      const decision = decide({
        outcome,
        cause: live.cause?.kind ?? null,
        attempt: live.attempt,
        maxAttempts,
        now: Date.now(),
        deadline_at: job.deadline_at,
        retryDelayMs,
      });
      switch (decision.do) {
        case 'publish':
          try {
            return await this.#publish(taken, decision.output, live.nonce, true);
          } catch (error) {
            // Redis refused the payload or the result, or was too slow: that is an infra failure of this attempt.
            outcome = { error };
            continue;
          }
        case 'publish_null':
          return this.#publishNull(taken, live.attempt, decision.reason);
        case 'retry':
          return this.#retry(taken, retryDelayMs, decision.failure);
        case 'hand_off':
          return this.#handOff(taken);
        case 'drop':
          // The lock is lost, so BullMQ can do nothing with this error but tell it.
          throw new Error(`attempt ${live.attempt} of ${bull.id} ended: ${live.cause?.message}`);
      }
    }
  }

  async #process(taken: Taken): Promise<EpisodeOutput> {
    const { bull, job, live } = taken;
    const { tasks, runs, worker, process } = this.#parts;
    const [task, run] = await Promise.all([tasks.read(job.task_ref), runs.read(job.run_id)]);
    if (task === null) throw new Error(`no task is stored under ${job.task_ref}`);
    live.signal.throwIfAborted();
    return process({
      job,
      task,
      attempt: live.attempt,
      nonce: live.nonce,
      worker,
      lane: live.lane,
      queued_at: bull.timestamp,
      run: { sampling: run?.sampling ?? {}, limits: run?.limits ?? {} },
      signal: live.signal,
    });
  }

  async #publish(
    taken: Taken,
    output: EpisodeOutput,
    nonce: string,
    guarded: boolean,
  ): Promise<EpisodeReturn> {
    const { live } = taken;
    const { summary, payload } = output;
    const { publisher, publishSeconds, onPublished } = this.#parts;
    const published = publisher.publish({ summary, payload, nonce, guarded }).then((reply) => {
      if (reply[0] === 'published') onPublished?.(summary);
      return reply;
    });
    const reply = await withinPublishDeadline(published, publishSeconds);
    if (reply[0] === 'ended') return this.#publishNull(taken, live.attempt, { ended: reply[1] });
    if (reply[0] === 'no_payload') throw new Error('the payload was gone before it was published');
    crashPoint('complete:before');
    const { status, stop_reason, reward, attempt } = summary;
    return { verdict: reply[0], status, stop_reason, reward, attempt };
  }

  async #publishNull(taken: Taken, attempt: number, reason: NullReason): Promise<EpisodeReturn> {
    const { job, bull, live } = taken;
    const [task, run] = await Promise.all([
      // A task that cannot be read is no reason to lose its result.
      this.#parts.tasks.read(job.task_ref).catch(() => null),
      this.#parts.runs.read(job.run_id).catch(() => null),
    ]);
    const runSampling: SamplingOverrides = run?.sampling ?? {};
    const summary = nullSummary({
      job,
      task,
      attempt,
      runSampling,
      worker: this.#parts.worker,
      queued_at: bull.timestamp,
      started_at: live.started_at,
      now: Date.now(),
      reason,
    });
    // Told apart from the attempt's own result, which may still be on its way to Redis and then was first.
    return this.#publish(taken, { summary, payload: null }, `${live.nonce}-null`, false);
  }

  async #retry(taken: Taken, delayMs: number, failure: Failure | null) {
    const { job, live, bull } = taken;
    this.#parts.log.warn(
      { episode: job.episode_id, attempt: live.attempt, code: failure?.code, delayMs },
      failure?.message ?? 'retry',
    );
    crashPoint('retry.delay:before');
    const released = await this.#release(taken, true, failure);
    if (released !== undefined) return released;
    await bull.moveToDelayed(Date.now() + delayMs, taken.token);
    crashPoint('retry.delay:after');
    throw new DelayedError();
  }

  async #handOff(taken: Taken): Promise<EpisodeReturn> {
    crashPoint('handoff:before');
    const released = await this.#release(taken, false, null);
    if (released !== undefined) return released;
    await taken.bull.moveToWait(taken.token);
    crashPoint('handoff:after');
    throw new WaitingError();
  }

  /** Gives the claim back; a value when there is nothing to put back because the episode has its result. */
  async #release(
    taken: Taken,
    counted: boolean,
    failure: Failure | null,
  ): Promise<EpisodeReturn | undefined> {
    const { redis, names, publisher } = this.#parts;
    const { job, live } = taken;
    const reply = await releaseEpisode(redis, names, job, { nonce: live.nonce, counted, failure });
    if (reply !== 'settled') return undefined;
    await publisher.announce(job.episode_id);
    return { verdict: 'dup' };
  }

  async #abortedBeforeClaim(taken: Taken): Promise<EpisodeReturn> {
    const kind = taken.live.cause?.kind;
    if (kind === 'twin' || kind === 'lock_lost') throw new Error(`copy of ${taken.bull.id} dropped: ${kind}`);
    if (kind === 'handoff' || kind === 'shutdown') return backToWait(taken.bull, taken.token);
    // Its flag is set, so that the next claim ends it.
    return putAside(taken.bull, taken.token, 0);
  }

  /**
   * Redis refused a step (out of memory, a replica): the job is put aside and looked at again, so that it does not end
   * in BullMQ's `failed` without a result. BullMQ's own signals, and errors of a copy without a lock, pass through.
   */
  async #unexpected(taken: Taken, error: unknown): Promise<never> {
    if (isMove(error)) throw error;
    if (taken.live.cause?.kind === 'twin' || taken.live.cause?.kind === 'lock_lost') throw error;
    this.#parts.log.error({ err: error, episode: taken.job.episode_id }, 'episode job put aside');
    return putAside(taken.bull, taken.token, this.#parts.timings.handBackMs);
  }
}

function lastFailure(text: string): string {
  if (text === '') return '';
  return `; last failure: ${(JSON.parse(text) as { message: string }).message}`;
}
