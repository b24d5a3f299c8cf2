import type { BeginLine, CallLine, EndLine, EpisodeLine, RefusedLine, TraceLine } from './trace-line.ts';

/** A call as its lines tell it. */
export interface TracedCall {
  readonly begin: BeginLine | null;
  /** With what became of it; null: it was in flight when the worker ended, or still is. */
  readonly call: CallLine | null;
  /** Names of the requests that repeated the one that it began with. */
  readonly joined: readonly string[];
}

/** What the lines of one attempt's trace come to. */
export interface TraceSoFar {
  readonly episode: EpisodeLine | null;
  /** In order of arrival. */
  readonly calls: readonly TracedCall[];
  /** Requests that no call was made for. */
  readonly refused: readonly RefusedLine[];
  /** null: the worker ended before the episode did, or it still runs. */
  readonly end: EndLine | null;
  /** Its share of the disk was used up before its end. */
  readonly cut: boolean;
  /** Lines that cannot be read: cut short by a full disk or a crash. */
  readonly damaged: number;
}

interface Known {
  begin: BeginLine | null;
  call: CallLine | null;
  readonly joined: string[];
}

function parsed(line: string): TraceLine | null {
  try {
    const value: unknown = JSON.parse(line);
    return typeof value === 'object' && value !== null && 'type' in value ? (value as TraceLine) : null;
  } catch {
    return null;
  }
}

/** Puts a trace together line by line; lines of kinds that this code does not know are passed over. */
export class TraceReading {
  readonly #calls = new Map<number, Known>();
  readonly #byRequest = new Map<string, Known>();
  readonly #refused: RefusedLine[] = [];
  #episode: EpisodeLine | null = null;
  #end: EndLine | null = null;
  #cut = false;
  #damaged = 0;

  /** The line, read; null for one that is empty or damaged. */
  add(text: string): TraceLine | null {
    if (text === '') return null;
    const line = parsed(text);
    if (line === null) this.#damaged++;
    else this.#take(line);
    return line;
  }

  /** What is known of a call; null when no line named it. */
  call(index: number): TracedCall | null {
    return this.#calls.get(index) ?? null;
  }

  soFar(): TraceSoFar {
    return {
      episode: this.#episode,
      calls: [...this.#calls].sort(([a], [b]) => a - b).map(([, call]) => call),
      refused: this.#refused,
      end: this.#end,
      cut: this.#cut,
      damaged: this.#damaged,
    };
  }

  #of(index: number): Known {
    let call = this.#calls.get(index);
    if (call === undefined) this.#calls.set(index, (call = { begin: null, call: null, joined: [] }));
    return call;
  }

  #take(line: TraceLine): void {
    switch (line.type) {
      case 'episode':
        this.#episode = line;
        break;
      case 'begin':
        this.#of(line.call).begin = line;
        if (line.request_id !== undefined) this.#byRequest.set(line.request_id, this.#of(line.call));
        break;
      case 'joined':
        this.#byRequest.get(line.begun_by)?.joined.push(line.request_id);
        break;
      case 'refused':
        this.#refused.push(line);
        break;
      case 'call':
        this.#of(line.call).call = line;
        break;
      case 'fate': {
        const known = this.#of(line.call);
        if (known.call !== null) known.call = { ...known.call, fate: line.fate };
        break;
      }
      case 'end':
        this.#end = line;
        break;
      case 'cut':
        this.#cut = true;
        break;
      default:
    }
  }
}
