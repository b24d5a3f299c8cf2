import { numberEnd, unusual } from './json-bytes.ts';

/** Powers of ten that a double holds exactly. */
const tens = Float64Array.from({ length: 23 }, (_item, power) => Number(`1e${power}`));

/**
 * Bounds the relative error of what is computed below, whose roundings (two of the digits, two of the power of ten) are
 * 2^-53 each: many times theirs, and still far below half a unit of a float32.
 */
const slack = 2 ** -48;

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

/**
 * Puts `Math.fround(JSON.parse(text))` of the number at `start` into `into[index]`, to the last bit, and gives the position
 * behind it, or `unusual` where no number stands. Rounding is monotone: where both ends of an interval that holds the true
 * value round to the same float32, so does the value. Where they do not, the text is parsed.
 */
export function putFloat32(bytes: Uint8Array, start: number, into: Float32Array, index: number): number {
  let at = start;
  const negative = bytes[at] === 0x2d;
  if (negative) at++;
  let first = 0;
  let second = 0;
  let digits = 0;
  let point = -1;
  let byte = 0;
  for (; at < bytes.length; at++) {
    byte = bytes[at]!;
    if (byte >= 0x30 && byte <= 0x39) {
      // Zeros in front are no digits.
      if (digits < halfDigits) first = (first * 10 + (byte - 0x30)) | 0;
      else second = (second * 10 + (byte - 0x30)) | 0;
      if (first !== 0) digits++;
    } else if (byte === 0x2e && point < 0) {
      point = at;
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
    point === numeral ||
    point === at - 1 ||
    at === numeral ||
    (bytes[numeral] === 0x30 && point !== numeral + 1)
  ) {
    end = numberEnd(bytes, start);
    if (end === unusual) return unusual;
  }
  const power = (point < 0 ? 0 : point + 1 - at) + (hasExponent ? exponentAt(bytes, at + 1, end) : 0);
  if (digits > 2 * halfDigits || power < -44 || power > 44) {
    into[index] = parsed(bytes, start, end);
    return end;
  }
  let value = digits > halfDigits ? first * tens[digits - halfDigits]! + second : first;
  if (power < 0) value = power < -22 ? value / 1e22 / tens[-power - 22]! : value / tens[-power]!;
  else if (power > 0) value = power > 22 ? value * 1e22 * tens[power - 22]! : value * tens[power]!;
  const low = Math.fround(value * (1 - slack));
  if (low === Math.fround(value * (1 + slack))) into[index] = negative ? -low : low;
  else into[index] = parsed(bytes, start, end);
  return end;
}
