/** Calls of the control plane, and `envd`: every request to a sandbox. */
export type CallName =
  | 'create'
  | 'connect'
  | 'list'
  | 'info'
  | 'kill'
  | 'timeout'
  | 'pause'
  | 'snapshot'
  | 'list_snapshots'
  | 'network'
  | 'metrics'
  | 'template'
  | 'envd';

/** What a fault may be bound to; each that is given has to hold. */
export interface FaultBounds {
  /** How many times it happens. Default: without end. */
  readonly times?: number;
  /** Calls that could have met it and pass first. Default: 0. */
  readonly after?: number;
  /** Of each call that could meet it. Default: 1. */
  readonly probability?: number;
  /** Only calls about this sandbox. */
  readonly sandbox_id?: string;
  /** Only streams of commands whose text holds this. */
  readonly command?: string | RegExp;
}

export type Fault = FaultBounds &
  (
    | {
        /** Answered so, and nothing is done. */
        readonly kind: 'refuse';
        readonly call: CallName;
        readonly status: number;
        readonly message?: string;
        readonly error_code?: string;
        readonly retry_after_s?: number;
      }
    /** Done, and never answered: the client waits until it gives up. */
    | { readonly kind: 'lose'; readonly call: CallName }
    /** Done, and the connection breaks instead of an answer. */
    | { readonly kind: 'break'; readonly call: CallName }
    /** Done, and answered after this time. */
    | { readonly kind: 'delay'; readonly call: CallName; readonly ms: number }
    /** The connection of a command's stream breaks, without an end event. */
    | { readonly kind: 'cut_stream'; readonly after_bytes?: number; readonly after_ms?: number }
    /** Nothing comes on a command's stream any more, and it stays open. */
    | { readonly kind: 'hang_stream'; readonly after_bytes?: number; readonly after_ms?: number }
    /** The next sandboxes made vanish after this time, and nobody is told. */
    | { readonly kind: 'evict'; readonly after_ms: number }
    /** The next sandboxes made end this long before their time. */
    | { readonly kind: 'end_early'; readonly by_ms: number }
    /** Commands of the next sandboxes made never start and never answer: a bad template. */
    | { readonly kind: 'hang_commands' }
    /** The next builds of templates fail at this step. */
    | { readonly kind: 'fail_build'; readonly message: string; readonly step?: string }
  );

export type FaultKind = Fault['kind'];
export type FaultOf<Kind extends FaultKind> = Extract<Fault, { kind: Kind }>;

export interface FaultPlace {
  readonly call?: CallName;
  readonly sandboxId?: string;
  readonly command?: string;
}

interface Armed {
  readonly fault: Fault;
  passed: number;
  met: number;
}

/** The faults that wait to happen. */
export class Faults {
  readonly #armed = new Set<Armed>();
  readonly #random: () => number;

  constructor(random: () => number) {
    this.#random = random;
  }

  /** From now on; gives the way to end it. */
  add(fault: Fault): () => void {
    const armed = { fault, passed: 0, met: 0 };
    this.#armed.add(armed);
    return () => void this.#armed.delete(armed);
  }

  clear(): void {
    this.#armed.clear();
  }

  /** The first fault of this kind that happens here and now; it counts as having happened. */
  take<Kind extends FaultKind>(kind: Kind, place: FaultPlace = {}): FaultOf<Kind> | null {
    for (const armed of this.#armed) {
      const { fault } = armed;
      if (fault.kind !== kind || !holds(fault, place)) continue;
      if (armed.passed < (fault.after ?? 0)) {
        armed.passed += 1;
        continue;
      }
      if (fault.probability !== undefined && this.#random() >= fault.probability) continue;
      armed.met += 1;
      if (armed.met >= (fault.times ?? Infinity)) this.#armed.delete(armed);
      return fault as FaultOf<Kind>;
    }
    return null;
  }
}

function holds(fault: Fault, place: FaultPlace): boolean {
  if ('call' in fault && fault.call !== place.call) return false;
  if (fault.sandbox_id !== undefined && fault.sandbox_id !== place.sandboxId) return false;
  if (fault.command === undefined) return true;
  if (place.command === undefined) return false;
  return typeof fault.command === 'string'
    ? place.command.includes(fault.command)
    : fault.command.test(place.command);
}
