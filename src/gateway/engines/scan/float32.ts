import { minus, numberEnd, point, unusual } from './json-bytes.ts';
import { fourDigits } from './words.ts';

/** Powers of ten that a double holds exactly. */
const tens = Float64Array.from({ length: 23 }, (_item, power) => Number(`1e${power}`));

/**
 * Bounds the relative error of what is computed below, whose roundings (at most sixteen of the digits, two of the power of
 * ten) are 2^-53 each: many times theirs, and still far below half a unit of a float32.
 */
const slack = 2 ** -46;

/** The least power of ten that two divisions by exact ones come to. */
const leastPower = -44;
/** Digits behind the point that are computed with; doubles say no more than 17. */
const fractionDigits = 22;

/** Digits of which two halves are held exactly as 32-bit integers. */
const halfDigits = 9;

/** Reads the exponent behind an `e`, its grammar known to be right. */
function exponentAt(bytes: Uint8Array, at: number, end: number): number {
  const sign = bytes[at];
  if (sign === 0x2d || sign === 0x2b) at++;
  let exponent = 0;
  for (; at < end; at++) exponent = exponent * 10 + (bytes[at]! - 0x30);
  return sign === 0x2d ? -exponent : exponent;
}

function parsed(bytes: Uint8Array, start: number, end: number): number {
  const text = Buffer.from(bytes.buffer, bytes.byteOffset + start, end - start).toString('latin1');
  return Math.fround(Number(text));
}

/** `text` between the two positions is known to be a number of this size. */
function put(
  bytes: Uint8Array,
  start: number,
  end: number,
  size: number,
  into: Float32Array,
  index: number,
): number {
  const low = Math.fround(size * (1 - slack));
  if (low === Math.fround(size * (1 + slack))) into[index] = bytes[start] === minus ? -low : low;
  else into[index] = parsed(bytes, start, end);
  return end;
}

/**
 * Puts `Math.fround(JSON.parse(text))` of the number at `start` into `into[index]`, to the last bit, and gives the position
 * behind it, or `unusual` where no number stands. Rounding is monotone: where both ends of an interval that holds the true
 * value round to the same float32, so does the value. Where they do not, the text is parsed. `view` is of the same bytes.
 */
export function putFloat32(
  bytes: Uint8Array,
  view: DataView,
  start: number,
  into: Float32Array,
  index: number,
): number {
  // As logprobs are written: one digit, a point, more digits, perhaps a small negative exponent.
  let at = bytes[start] === minus ? start + 1 : start;
  let size = bytes[at]! - 0x30;
  if (bytes[at + 1] !== point || size < 0 || size > 9) return putAnyFloat32(bytes, start, into, index);
  const fraction = at + 2;
  const lastWord = Math.min(bytes.length, fraction + fractionDigits) - 4;
  for (at = fraction; at <= lastWord; at += 4) {
    const four = fourDigits(view.getInt32(at, true));
    if (four < 0) break;
    size = size * 10_000 + four;
  }
  let byte = 0;
  for (; at < bytes.length; at++) {
    byte = bytes[at]!;
    if (byte < 0x30 || byte > 0x39) break;
    size = size * 10 + (byte - 0x30);
  }
  let power = fraction - at;
  if (power === 0 || power < -fractionDigits) return putAnyFloat32(bytes, start, into, index);
  if (byte === 0x65 || byte === 0x45) {
    const end = numberEnd(bytes, start);
    if (end === unusual) return unusual;
    power += exponentAt(bytes, at + 1, end);
    if (power < leastPower || power > 0) return putAnyFloat32(bytes, start, into, index);
    at = end;
  }
  size = power < -22 ? size / 1e22 / tens[-power - 22]! : size / tens[-power]!;
  return put(bytes, start, at, size, into, index);
}

/** The same for any number. */
function putAnyFloat32(bytes: Uint8Array, start: number, into: Float32Array, index: number): number {
  let at = start;
  const negative = bytes[at] === minus;
  if (negative) at++;
  let first = 0;
  let second = 0;
  let digits = 0;
  let pointAt = -1;
  let byte = 0;
  for (; at < bytes.length; at++) {
    byte = bytes[at]!;
    if (byte >= 0x30 && byte <= 0x39) {
      // Zeros in front are no digits.
      if (digits < halfDigits) first = (first * 10 + (byte - 0x30)) | 0;
      else second = (second * 10 + (byte - 0x30)) | 0;
      if (first !== 0) digits++;
    } else if (byte === point && pointAt < 0) {
      pointAt = at;
    } else {
      break;
    }
  }
  const hasExponent = byte === 0x65 || byte === 0x45;
  const numeral = start + (negative ? 1 : 0);
  let end = at;
  // Grammar beyond digits with a point between them: exponents, zeros in front, digits missing.
  if (
    hasExponent ||
    pointAt === numeral ||
    pointAt === at - 1 ||
    at === numeral ||
    (bytes[numeral] === 0x30 && pointAt !== numeral + 1)
  ) {
    end = numberEnd(bytes, start);
    if (end === unusual) return unusual;
  }
  const power = (pointAt < 0 ? 0 : pointAt + 1 - at) + (hasExponent ? exponentAt(bytes, at + 1, end) : 0);
  if (digits > 2 * halfDigits || power < leastPower || power > 44) {
    into[index] = parsed(bytes, start, end);
    return end;
  }
  let value = digits > halfDigits ? first * tens[digits - halfDigits]! + second : first;
  if (power < 0) value = power < -22 ? value / 1e22 / tens[-power - 22]! : value / tens[-power]!;
  else if (power > 0) value = power > 22 ? value * 1e22 * tens[power - 22]! : value * tens[power]!;
  return put(bytes, start, end, value, into, index);
}
