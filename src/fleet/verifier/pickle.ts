/** A Python tuple. */
export class Tuple {
  readonly items: readonly Picklable[];

  constructor(...items: readonly Picklable[]) {
    this.items = items;
  }
}

/**
 * A number is an int when it is a whole one that JavaScript holds exactly, else a float (-0 too); a bigint always is an
 * int. An array is a list, a plain object a dict.
 */
export type Picklable =
  | null
  | boolean
  | number
  | bigint
  | string
  | Tuple
  | readonly Picklable[]
  | { readonly [key: string]: Picklable };

/** A value that has no pickle. */
export class PickleError extends Error {
  constructor(problem: string) {
    super(problem);
    this.name = 'PickleError';
  }
}

/** How deep lists, tuples and dicts may stand in each other; a value that holds itself ends here. */
export const deepestPickle = 500;

// https://github.com/python/cpython/blob/3.11/Lib/pickletools.py
const op = {
  proto: 0x80,
  stop: 0x2e,
  mark: 0x28,
  none: 0x4e,
  true: 0x88,
  false: 0x89,
  int32: 0x4a,
  long1: 0x8a,
  long4: 0x8b,
  float: 0x47,
  unicode: 0x58,
  emptyList: 0x5d,
  appends: 0x65,
  tuple: 0x74,
  emptyDict: 0x7d,
  setItems: 0x75,
};

function uint32(value: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32LE(value);
  return bytes;
}

/** UTF-8; half of a surrogate pair as its own three bytes, which is what CPython's unpickler reads. */
function utf8(text: string): Buffer {
  if (!/\p{Surrogate}/u.test(text)) return Buffer.from(text, 'utf8');
  return Buffer.concat(
    text.split(/(\p{Surrogate})/u).map((part, index) => {
      if (index % 2 === 0) return Buffer.from(part, 'utf8');
      const unit = part.charCodeAt(0);
      return Buffer.from([0xe0 | (unit >> 12), 0x80 | ((unit >> 6) & 0x3f), 0x80 | (unit & 0x3f)]);
    }),
  );
}

/** Two's complement, least byte first, as short as it can be. */
function longBytes(value: bigint): Buffer {
  const length = Math.ceil(((value < 0n ? -value - 1n : value).toString(2).length + 1) / 8);
  const hex = BigInt.asUintN(length * 8, value)
    .toString(16)
    .padStart(length * 2, '0');
  return Buffer.from(hex, 'hex').reverse();
}

function writeInt(out: Buffer[], value: number | bigint): void {
  if (value >= -(2 ** 31) && value < 2 ** 31) {
    const bytes = Buffer.from([op.int32, 0, 0, 0, 0]);
    bytes.writeInt32LE(Number(value), 1);
    out.push(bytes);
    return;
  }
  const bytes = longBytes(BigInt(value));
  if (bytes.length < 256) out.push(Buffer.from([op.long1, bytes.length]), bytes);
  else out.push(Buffer.from([op.long4]), uint32(bytes.length), bytes);
}

function writeString(out: Buffer[], text: string): void {
  const bytes = utf8(text);
  out.push(Buffer.from([op.unicode]), uint32(bytes.length), bytes);
}

function isPlain(value: object): value is Readonly<Record<string, Picklable>> {
  const prototype: unknown = Object.getPrototypeOf(value);
  return prototype === Object.prototype || prototype === null;
}

function write(out: Buffer[], value: Picklable, depth: number): void {
  if (value === null) out.push(Buffer.from([op.none]));
  else if (typeof value === 'boolean') out.push(Buffer.from([value ? op.true : op.false]));
  else if (typeof value === 'string') writeString(out, value);
  else if (typeof value === 'bigint' || (Number.isSafeInteger(value) && !Object.is(value, -0))) {
    writeInt(out, value as number | bigint);
  } else if (typeof value === 'number') {
    const bytes = Buffer.alloc(9, op.float);
    bytes.writeDoubleBE(value, 1);
    out.push(bytes);
  } else if (typeof value !== 'object') throw new PickleError(`a ${typeof value} cannot be pickled`);
  else if (depth >= deepestPickle) throw new PickleError(`is nested deeper than ${deepestPickle}`);
  else if (Array.isArray(value)) {
    out.push(Buffer.from([op.emptyList, op.mark]));
    for (const item of value as readonly Picklable[]) write(out, item, depth + 1);
    out.push(Buffer.from([op.appends]));
  } else if (value instanceof Tuple) {
    out.push(Buffer.from([op.mark]));
    for (const item of value.items) write(out, item, depth + 1);
    out.push(Buffer.from([op.tuple]));
  } else if (isPlain(value)) {
    out.push(Buffer.from([op.emptyDict, op.mark]));
    for (const [key, item] of Object.entries(value)) {
      writeString(out, key);
      write(out, item, depth + 1);
    }
    out.push(Buffer.from([op.setItems]));
  } else throw new PickleError('an object of a class cannot be pickled');
}

/**
 * Pickle of protocol 2, which every Python 3 reads.
 *
 * @throws PickleError for a value of another type, and for one nested deeper than `deepestPickle`.
 */
export function pickle(value: Picklable): Uint8Array {
  const out = [Buffer.from([op.proto, 2])];
  write(out, value, 0);
  out.push(Buffer.from([op.stop]));
  return Buffer.concat(out);
}
