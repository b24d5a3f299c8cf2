import type { ChatMessage } from '../../contracts/index.ts';
import type { Replica } from '../policy/replica.ts';
import { foldInlineSystem, hasInlineSystem } from './system-fold.ts';
import { probeSystemInPlace } from './vllm-system-probe.ts';

/** Leaves system messages in mid-conversation where they are, or folds them: as the model's template takes them. */
export class SystemPlacement {
  readonly #model: string;
  #inPlace: boolean | undefined;

  /** `inPlace` undefined: probed at the first request that needs it. */
  constructor(model: string, inPlace: boolean | undefined) {
    this.#model = model;
    this.#inPlace = inPlace;
  }

  async place(
    replica: Replica,
    messages: readonly ChatMessage[],
    signal: AbortSignal,
  ): Promise<readonly ChatMessage[]> {
    if (!hasInlineSystem(messages)) return messages;
    this.#inPlace ??= await probeSystemInPlace(replica, this.#model, signal);
    return this.#inPlace ? messages : foldInlineSystem(messages);
  }
}
