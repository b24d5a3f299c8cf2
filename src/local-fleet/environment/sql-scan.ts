/** What can be said of SQL without running it. */
export interface ScannedSql {
  /** First word, in capitals; empty for none. */
  readonly keyword: string;
  /** Whether more than one statement stands there. SQLite would run the first and drop the rest unseen. */
  readonly several: boolean;
  /** Named parameters with their sign (`:a`, `@B`, `$c`), each once. */
  readonly parameters: readonly string[];
  /** Whether `?` or `?1` stands there. */
  readonly positional: boolean;
}

// Strings, quoted names and comments first: what stands in them means nothing.
const token =
  /'(?:[^']|'')*'|"(?:[^"]|"")*"|`(?:[^`]|``)*`|\[[^\]]*\]|--[^\n]*|\/\*[\s\S]*?(?:\*\/|$)|(?<named>[:@$][A-Za-z_]\w*)|(?<place>\?\d*)|(?<end>;)|(?<word>[\p{L}_][\p{L}\p{N}_$]*)|(?<space>\s+)|(?<other>[\s\S])/gu;

export function scanSql(sql: string): ScannedSql {
  const parameters = new Set<string>();
  let keyword = '';
  let ended = false;
  let several = false;
  let positional = false;
  for (const match of sql.matchAll(token)) {
    const { named, place, end, word, space } = match.groups ?? {};
    if (space !== undefined || match[0].startsWith('--') || match[0].startsWith('/*')) continue;
    if (end !== undefined) {
      ended ||= keyword !== '';
      continue;
    }
    if (ended) several = true;
    if (named !== undefined) parameters.add(named);
    if (place !== undefined) positional = true;
    if (word !== undefined && keyword === '') keyword = word.toUpperCase();
  }
  return { keyword, several, parameters: [...parameters], positional };
}
