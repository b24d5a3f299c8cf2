import type { Leftover, Owner } from '../contracts/index.ts';

/** Whose an instance is: the only label that the wire offers is its run id. */
export interface InstanceOwner {
  readonly owner: Pick<Owner, 'pool' | 'worker' | 'run_id' | 'nonce'>;
  /** The service's own time to live, seconds from creation. */
  readonly ttl_seconds: number;
}

const mark = 'rp';

/**
 * The Fleet `run_id` of what one try of an attempt creates: `rp:POOL:RUN:WORKER:TTL:NONCE`, `.N` behind the nonce from the
 * second try on. It is the try's own, so that a batch delete by it removes exactly what a lost creation made, however late
 * the service carries it out.
 */
export function fleetRunId({ owner, ttl_seconds }: InstanceOwner, tries = 0): string {
  const nonce = tries === 0 ? owner.nonce : `${owner.nonce}.${tries + 1}`;
  return [mark, owner.pool, owner.run_id, owner.worker, Math.ceil(ttl_seconds), nonce].join(':');
}

/** Reads it back; null when it is not ours. Only the pool, a Redis prefix, may hold colons: the rest is read from the right. */
export function readFleetRunId(runId: string | null | undefined): InstanceOwner | null {
  const parts = runId?.split(':') ?? [];
  if (parts.length < 6 || parts[0] !== mark) return null;
  const [run_id = '', worker = '', ttl = '', nonce = ''] = parts.slice(-4);
  const pool = parts.slice(1, -4).join(':');
  if (!/^\d+$/.test(ttl) || [pool, run_id, worker, nonce].includes('')) return null;
  return { owner: { pool, run_id, worker, nonce }, ttl_seconds: Number(ttl) };
}

/** The service writes UTC, with or without saying so. */
function instantOf(text: string | null | undefined): number {
  if (!text) return Number.NaN;
  return Date.parse(/(?:[Zz]|[+-]\d\d:?\d\d)$/.test(text) ? text : `${text.replace(' ', 'T')}Z`);
}

/** An instance as the reaper judges it; null when it is not ours. One whose age is not told never expires. */
export function leftoverOf(instance: {
  readonly run_id?: string | null | undefined;
  readonly created_at?: string | null | undefined;
}): Leftover | null {
  const ours = readFleetRunId(instance.run_id);
  if (ours === null) return null;
  const created = instantOf(instance.created_at);
  return {
    owner: ours.owner,
    expires_at: Number.isNaN(created) ? Number.POSITIVE_INFINITY : created + ours.ttl_seconds * 1000,
  };
}
