const powers = Array.from({ length: 16 }, (_, exponent) => 10 ** exponent);

/**
 * The number with the fewest decimals that is the same float32: -0.31 for the float32 that prints as
 * -0.3100000023841858. Exports are a third shorter for it, and `Math.fround` gives the engine's value back.
 */
export function shortFloat32(value: number): number {
  // The range of real logprobs, without text: it is the hot path of an export.
  if (Math.abs(value) < 1000) {
    for (let decimals = 5; decimals < powers.length; decimals += 1) {
      const power = powers[decimals]!;
      const rounded = Math.round(value * power) / power;
      if (Math.fround(rounded) === value) return rounded;
    }
  }
  // Nine significant digits tell any two float32 apart.
  for (let digits = 1; digits < 9; digits += 1) {
    const rounded = Number(value.toPrecision(digits));
    if (Math.fround(rounded) === value) return rounded;
  }
  return Number(value.toPrecision(9));
}
