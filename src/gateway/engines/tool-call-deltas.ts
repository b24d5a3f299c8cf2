import { argumentsOf, object, text } from './completion-parts.ts';
import type { EngineAnswer } from './engine.ts';

/** A call of which more may come. */
export interface OpenCall {
  readonly id: string;
  readonly name: string;
  readonly arguments: string;
}

class BegunCall implements OpenCall {
  id: string;
  name: string;
  arguments = '';
  /** What of its arguments nobody was told yet. */
  untold = '';
  /** Its agent has it whole: what still comes for it is none of it. */
  sealed = false;

  constructor(id: string, name: string) {
    this.id = id;
    this.name = name;
  }
}

/**
 * Puts tool calls together from streamed deltas, as engines and bridges really send them (facts: token capture 1.3): id
 * missing, empty or only once; name repeated in every delta, or empty at first; `index` left out, not from 0, or the
 * same for two calls with ids of their own; arguments never sent, or sent as an object.
 */
export class ToolCallDeltas {
  readonly #calls: BegunCall[] = [];
  /** The call that a delta with this index goes on with. */
  readonly #current = new Map<number, BegunCall>();

  push(deltas: unknown): void {
    if (!Array.isArray(deltas)) return;
    for (const [position, each] of deltas.entries()) {
      const delta = object(each);
      if (delta === null) continue;
      const given = delta['index'];
      const index = typeof given === 'number' && Number.isInteger(given) ? given : position;
      const called = object(delta['function']);
      const call = this.#call(index, text(delta['id']) ?? '', text(called?.['name']) ?? '');
      if (call.sealed) continue;
      const more = argumentsOf(called?.['arguments']);
      call.arguments += more;
      call.untold += more;
    }
  }

  /** The call this delta belongs to: the one of its index, unless it says another id, or without one another name. */
  #call(index: number, id: string, name: string): BegunCall {
    const known = this.#current.get(index);
    const differs = (is: string, was: string): boolean => is !== '' && was !== '' && is !== was;
    if (known === undefined || differs(id, known.id) || (id === '' && differs(name, known.name))) {
      const call = new BegunCall(id, name);
      this.#calls.push(call);
      this.#current.set(index, call);
      return call;
    }
    known.id ||= id;
    known.name ||= name;
    return known;
  }

  /** Calls that began, one without a name included. */
  get begun(): number {
    return this.#calls.length;
  }

  /** The call that began as number `at`, from 0. */
  at(at: number): OpenCall | null {
    return this.#calls[at] ?? null;
  }

  /** What came of its arguments since this was asked last. */
  more(at: number): string {
    const call = this.#calls[at];
    if (call === undefined) return '';
    const more = call.untold;
    call.untold = '';
    return more;
  }

  /** Takes no more of the arguments of call `at`. */
  seal(at: number): void {
    const call = this.#calls[at];
    if (call !== undefined) call.sealed = true;
  }

  /** In the order in which they began; one that never got a name is none. */
  calls(): EngineAnswer['tool_calls'] {
    return this.#calls
      .filter(({ name }) => name !== '')
      .map(({ id, name, arguments: given }) => ({ id, name, arguments: given }));
  }
}
