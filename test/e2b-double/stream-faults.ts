import type { IncomingMessage, ServerResponse } from 'node:http';
import type { FaultPlace, Faults } from './faults.ts';

/** Pid in the first envelope of a stream, when it is a start event. */
function pidOf(chunk: Buffer): number | null {
  try {
    const length = chunk.readUInt32BE(1);
    const message = JSON.parse(chunk.subarray(5, 5 + length).toString()) as {
      event?: { start?: { pid?: number } };
    };
    return message.event?.start?.pid ?? null;
  } catch {
    return null;
  }
}

/** Carries a command's stream to its client, and breaks or stops it when that was asked for. */
export class StreamFaults {
  readonly #faults: Faults;
  readonly #place: FaultPlace;

  constructor(faults: Faults, place: FaultPlace) {
    this.#faults = faults;
    this.#place = place;
  }

  carry(from: IncomingMessage, to: ServerResponse, onStart: (pid: number) => void): void {
    const cut = this.#faults.take('cut_stream', this.#place);
    const hang = cut === null ? this.#faults.take('hang_stream', this.#place) : null;
    const fault = cut ?? hang;
    const limit = fault === null ? Infinity : (fault.after_bytes ?? Infinity);
    let passed = 0;
    let stopped = false;
    const strike = (): void => {
      if (stopped) return;
      stopped = true;
      if (cut !== null) to.destroy();
    };
    const timer = fault?.after_ms === undefined ? undefined : setTimeout(strike, fault.after_ms);
    to.on('close', () => clearTimeout(timer));
    from.on('data', (chunk: Buffer) => {
      if (passed === 0) {
        const pid = pidOf(chunk);
        if (pid !== null) onStart(pid);
      }
      if (stopped) return;
      const part = chunk.subarray(0, Math.max(0, limit - passed));
      passed += chunk.length;
      const flows = part.length === 0 || to.write(part);
      if (passed >= limit) {
        // What passed is to arrive before the end.
        if (cut !== null) setImmediate(strike);
        else strike();
      } else if (!flows) {
        from.pause();
        to.once('drain', () => from.resume());
      }
    });
    from.on('end', () => {
      if (!stopped) to.end();
    });
  }
}
