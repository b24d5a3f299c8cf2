import { faultSchema, type Fault, type FaultInput, type FaultKind, type FaultOf } from './fault.ts';

/** What an occasion is about; a fault limited to something else does not fit it. */
export interface Occasion {
  readonly instance?: string;
  readonly run_id?: string | null;
  readonly tool?: string;
}

/** A fault that was switched on. */
export interface SwitchedFault {
  /** How often it was done. */
  readonly hits: number;
  /** Switches it off. */
  remove(): void;
}

interface Entry {
  readonly fault: Fault;
  skip: number;
  left: number;
  hits: number;
}

const limits = ['instance', 'run_id', 'tool'] as const;

function fits(fault: Fault, occasion: Occasion): boolean {
  return limits.every((limit) => {
    const wanted: unknown = (fault as Readonly<Record<string, unknown>>)[limit];
    return wanted === undefined || wanted === occasion[limit];
  });
}

/** The faults a local Fleet is asked to show. Of several that fit one occasion the oldest is done. */
export class FaultSwitch {
  #entries: Entry[] = [];

  /** Throws when the fault is not one. */
  add(input: FaultInput): SwitchedFault {
    const fault = faultSchema.parse(input);
    const entry: Entry = {
      fault,
      skip: fault.skip,
      left: fault.times === 'always' ? Number.POSITIVE_INFINITY : fault.times,
      hits: 0,
    };
    this.#entries.push(entry);
    return {
      get hits() {
        return entry.hits;
      },
      remove: () => this.#drop(entry),
    };
  }

  /** Switches every fault off. */
  clear(): void {
    this.#entries = [];
  }

  /** The fault of this kind to do now, if any; that counts as having done it. `when` decides about one that fits. */
  take<K extends FaultKind>(
    kind: K,
    occasion: Occasion = {},
    when: (fault: FaultOf<K>) => boolean = () => true,
  ): FaultOf<K> | undefined {
    for (const entry of this.#entries) {
      if (entry.fault.kind !== kind || !fits(entry.fault, occasion)) continue;
      const fault = entry.fault as FaultOf<K>;
      if (!when(fault)) continue;
      if (entry.skip > 0) {
        entry.skip -= 1;
        continue;
      }
      entry.hits += 1;
      entry.left -= 1;
      if (entry.left <= 0) this.#drop(entry);
      return fault;
    }
    return undefined;
  }

  #drop(entry: Entry): void {
    this.#entries = this.#entries.filter((other) => other !== entry);
  }
}
