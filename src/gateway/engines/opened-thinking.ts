import type { Replica } from '../policy/replica.ts';
import type { CallFormat } from './call-formats/call-format.ts';
import { syntaxes } from './call-formats/syntaxes.ts';
import { textOfIds } from './text-of-ids.ts';

/** Ids at a prompt's end that show how its template begins an answer, spelled-out markers included. */
const tailLength = 8;
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

  /** Undefined where the engine does not say. */
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
    const text = await textOfIds(replica, this.#model, tail, signal);
    if (text === null) return undefined;
    const opened = text.trimEnd().endsWith(syntaxes[format].thinking[0]);
    if (this.#known.size >= kept) this.#known.clear();
    this.#known.set(key, opened);
    return opened;
  }
}
