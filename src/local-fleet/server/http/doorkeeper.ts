import { createHash, timingSafeEqual } from 'node:crypto';
import { Refusal } from './refusal.ts';
import type { Exchange } from './exchange.ts';
import type { FaultSwitch } from '../faults/fault-switch.ts';

const digest = (text: string): Buffer => createHash('sha256').update(text).digest();

/** Lets in who shows the key. */
export class Doorkeeper {
  readonly #key: Buffer | null;
  readonly #faults: FaultSwitch;

  /** `key` null: any bearer will do, but there has to be one. */
  constructor(key: string | null, faults: FaultSwitch) {
    this.#key = key === null ? null : digest(key);
    this.#faults = faults;
  }

  /** Throws 401 otherwise. */
  check({ request }: Exchange, occasion: { readonly instance?: string } = {}): void {
    const given = /^Bearer\s+(\S+)\s*$/i.exec(request.headers.authorization ?? '')?.[1];
    if (given === undefined) throw new Refusal(401, 'Missing API key', { 'www-authenticate': 'Bearer' });
    const good = this.#key === null || timingSafeEqual(digest(given), this.#key);
    if (!good || this.#faults.take('wrong_key', occasion) !== undefined) {
      throw new Refusal(401, 'Invalid API key', { 'www-authenticate': 'Bearer' });
    }
  }
}
