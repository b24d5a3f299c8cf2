import { LinkedAbort } from '../linked-abort.ts';
import type { Replica } from '../policy/replica.ts';
import type { CallFormat } from './call-formats/call-format.ts';
import { opensThinking } from './call-formats/format-of-rendering.ts';
import { EngineError } from './engine-error.ts';
import { textOfIds } from './text-of-ids.ts';

/** Ids at a prompt's end that show how its template begins an answer, spelled-out markers included. */
const tailLength = 8;
/** How long the engine may take to say it. */
const answerMs = 5_000;
/** Ends of prompts that are kept: a model's template has one or two. */
const kept = 100;

/**
 * Whether prompts end in opened thinking, as some templates have it: text that is told while it comes must know before its
 * first word. The engine is asked once for each way that prompts end.
 */
export class OpenedThinking {
  readonly #model: string;
  readonly #known = new Map<string, boolean>();

  constructor(model: string) {
    this.#model = model;
  }

  /** Undefined where the engine does not say, for whatever reason: an answer can be read without it, only not told early. */
  async in(
    replica: Replica,
    promptIds: Int32Array,
    format: CallFormat,
    signal: AbortSignal,
  ): Promise<boolean | undefined> {
    const tail = promptIds.slice(-tailLength);
    const key = tail.join();
    const known = this.#known.get(key);
    if (known !== undefined) return known;
    const text = await this.#text(replica, tail, signal);
    if (text === null) return undefined;
    const opened = opensThinking(text, format);
    if (this.#known.size >= kept) this.#known.clear();
    this.#known.set(key, opened);
    return opened;
  }

  async #text(replica: Replica, tail: Int32Array, signal: AbortSignal): Promise<string | null> {
    using limited = new LinkedAbort([signal]);
    const timer = setTimeout(() => limited.abort(new Error('no answer')), answerMs);
    try {
      return await textOfIds(replica, this.#model, tail, limited.signal);
    } catch (error) {
      signal.throwIfAborted();
      if (limited.signal.aborted || (error instanceof EngineError && error.fault === 'busy')) return null;
      throw error;
    } finally {
      clearTimeout(timer);
    }
  }
}
