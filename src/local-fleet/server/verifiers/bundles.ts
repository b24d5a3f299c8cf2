import { createHash } from 'node:crypto';

/** Bytes of verifier bundles that are kept. */
const keptBytes = 64 * 2 ** 20;

/** A verifier's bundle, known by the SHA-256 of its bytes. */
export interface Bundle {
  readonly sha256: string;
  readonly bytes: Uint8Array;
  readonly verifier_id: string;
  readonly key: string | null;
  readonly created_at: string;
}

/** Bundles that were uploaded; those not used for longest make room. */
export class Bundles {
  readonly #bundles = new Map<string, Bundle>();
  #size = 0;

  add(bytes: Uint8Array, key: string | null): Bundle {
    const sha256 = createHash('sha256').update(bytes).digest('hex');
    const known = this.find(sha256);
    if (known !== undefined) return known;
    const verifier_id = `local-${sha256.slice(0, 12)}`;
    const bundle: Bundle = { sha256, bytes, verifier_id, key, created_at: new Date().toISOString() };
    this.#bundles.set(sha256, bundle);
    this.#size += bytes.length;
    for (const [oldest, { bytes: gone }] of this.#bundles) {
      if (this.#size <= keptBytes || oldest === sha256) break;
      this.#bundles.delete(oldest);
      this.#size -= gone.length;
    }
    return bundle;
  }

  find(sha256: string): Bundle | undefined {
    const bundle = this.#bundles.get(sha256);
    if (bundle === undefined) return undefined;
    this.#bundles.delete(sha256);
    this.#bundles.set(sha256, bundle);
    return bundle;
  }
}
