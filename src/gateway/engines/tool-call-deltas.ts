import { argumentsOf, object, text } from './completion-parts.ts';
import type { EngineAnswer } from './engine.ts';

interface OpenCall {
  id: string;
  name: string;
  arguments: string;
}

/**
 * Puts tool calls together from streamed deltas, as engines and bridges really send them (facts: token capture 1.3): id
 * missing, empty or only once; name repeated in every delta, or empty at first; `index` left out, not from 0, or the
 * same for two calls with ids of their own; arguments never sent, or sent as an object.
 */
export class ToolCallDeltas {
  readonly #calls: OpenCall[] = [];
  /** The call that a delta with this index goes on with. */
  readonly #current = new Map<number, OpenCall>();

  push(deltas: unknown): void {
    if (!Array.isArray(deltas)) return;
    for (const [position, each] of deltas.entries()) {
      const delta = object(each);
      if (delta === null) continue;
      const given = delta['index'];
      const index = typeof given === 'number' && Number.isInteger(given) ? given : position;
      const called = object(delta['function']);
      const call = this.#call(index, text(delta['id']) ?? '', text(called?.['name']) ?? '');
      call.arguments += argumentsOf(called?.['arguments']);
    }
  }

  /** The call this delta belongs to: the one of its index, unless it says another id, or without one another name. */
  #call(index: number, id: string, name: string): OpenCall {
    const known = this.#current.get(index);
    const differs = (is: string, was: string): boolean => is !== '' && was !== '' && is !== was;
    if (known === undefined || differs(id, known.id) || (id === '' && differs(name, known.name))) {
      const call = { id, name, arguments: '' };
      this.#calls.push(call);
      this.#current.set(index, call);
      return call;
    }
    known.id ||= id;
    known.name ||= name;
    return known;
  }

  /** In the order in which they began; one that never got a name is none. */
  calls(): EngineAnswer['tool_calls'] {
    return this.#calls.filter(({ name }) => name !== '').map((call) => ({ ...call }));
  }
}
