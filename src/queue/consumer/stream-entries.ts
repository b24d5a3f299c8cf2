/** An entry of a Redis stream whose one field holds JSON. */
export interface StreamEntry<T> {
  readonly id: string;
  readonly value: T;
}

/** Reply of XRANGE, and of a stream within XREAD. */
type RawEntry = readonly [id: string, fields: readonly string[] | null];

/** Decodes entries; those deleted since (XAUTOCLAIM and XREADGROUP may name them) are left out. */
export function decodeEntries<T>(raw: readonly RawEntry[], field: string): StreamEntry<T>[] {
  return raw.flatMap(([id, fields]) => {
    const text = fields?.[fields.indexOf(field) + 1];
    return text === undefined ? [] : [{ id, value: JSON.parse(text) as T }];
  });
}

/** Decodes the reply of XREAD or XREADGROUP over one stream; null is what they say when there is nothing. */
export function decodeRead<T>(reply: unknown, field: string): StreamEntry<T>[] {
  const [stream] = (reply ?? []) as readonly (readonly [string, readonly RawEntry[]])[];
  return stream === undefined ? [] : decodeEntries<T>(stream[1], field);
}

/** Order of entry ids: negative when `a` is before `b`. */
export function compareIds(a: string, b: string): number {
  const [aTime = '0', aCount = '0'] = a.split('-');
  const [bTime = '0', bCount = '0'] = b.split('-');
  return Number(aTime) - Number(bTime) || Number(aCount) - Number(bCount);
}
