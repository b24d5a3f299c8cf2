import { contentHash, type ClaudeCodeTask } from '../contracts/index.ts';
import type { Sandbox } from '../sandbox/sandbox.ts';
import type { GradeContext } from './grader.ts';
import { runVerifier } from './run-verifier.ts';

/** How a verifier did in a sandbox of its task that no agent had been in. */
export interface CleanRun {
  /** Commands whose exit says that the verifier itself does not work. */
  readonly faulty: ReadonlySet<number>;
  /** Whether there was no usable reward. */
  readonly unrewarded: boolean;
}

const kept = 1_000;

/**
 * Tells whose fault it is that a verifier did not work: an agent can remove a program of the image, plant settings, or make
 * code under test end its tester. One that works in a sandbox without the agent's work was broken by it. Looked at once for
 * each task, and remembered.
 */
export class CleanRuns {
  readonly #runs = new Map<string, Promise<CleanRun>>();

  /** Rejects as a grading does (infra), and then nothing is remembered. */
  async of(
    context: GradeContext,
    task: ClaudeCodeTask,
    provider: string,
    makeSandbox: () => Promise<Sandbox>,
  ): Promise<CleanRun> {
    const { sandbox, files, setup, verify } = task;
    const key = contentHash({ provider, sandbox, files, setup, verify });
    const known = await this.#runs.get(key)?.catch(() => null);
    if (known !== undefined && known !== null) return known;
    const run = this.#look(context, task, makeSandbox);
    this.#runs.set(key, run);
    const [oldest] = this.#runs.keys();
    if (this.#runs.size > kept && oldest !== undefined) this.#runs.delete(oldest);
    try {
      return await run;
    } catch (error) {
      if (this.#runs.get(key) === run) this.#runs.delete(key);
      throw error;
    }
  }

  async #look(
    { limits, signal, log }: GradeContext,
    { verify, task_key }: ClaudeCodeTask,
    makeSandbox: () => Promise<Sandbox>,
  ): Promise<CleanRun> {
    await using sandbox = await makeSandbox();
    const { run, result } = await runVerifier(sandbox, { verify, limits, signal }, []);
    signal.throwIfAborted();
    const faulty = new Set(run.faults.map(({ index }) => index));
    const unrewarded = 'fault' in result;
    log.info({ task: task_key, faulty: [...faulty], unrewarded }, 'looked whether the verifier works');
    return { faulty, unrewarded };
  }
}
