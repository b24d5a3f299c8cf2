const longest = 64;
const legal = /^[a-zA-Z0-9_-]{1,64}$/;

function shaped(name: string): string {
  const ascii = name.replaceAll(/[^a-zA-Z0-9_-]/gu, '_').slice(0, longest);
  return ascii === '' ? 'tool' : ascii;
}

/**
 * A name for each tool that chat completions take (`[a-zA-Z0-9_-]`, 1 to 64 of them) -> the tool's own name. A name that
 * is legal stays; any other has its characters replaced by `_` and a number added where that would be taken already.
 * The same list in the same order gives the same names.
 */
export function legalNames(names: readonly string[]): ReadonlyMap<string, string> {
  const taken = new Set(names.filter((name) => legal.test(name)));
  const mapped = new Map<string, string>();
  for (const name of new Set(names)) {
    let candidate = name;
    if (!legal.test(name)) {
      candidate = shaped(name);
      for (let number = 2; taken.has(candidate); number++) {
        candidate = `${shaped(name).slice(0, longest - `_${number}`.length)}_${number}`;
      }
      taken.add(candidate);
    }
    mapped.set(candidate, name);
  }
  return mapped;
}
