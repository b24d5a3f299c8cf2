/** A chunk of a streamed chat completion that says one sampled token and nothing else. */
export interface TokenChunk {
  readonly id: number;
  readonly logprob: number;
  /** What the token added: nothing where a parser holds it back. */
  readonly kind: 'content' | 'reasoning' | 'arguments' | null;
  readonly text: string;
  /** Of the call whose arguments they are. */
  readonly index: number;
}

/** A string's inside, escapes and all. */
const inside = String.raw`[^"\\]*(?:\\.[^"\\]*)*`;

/** What stands before the choices: the same in every chunk of an answer. */
const headPattern = /^\{(?:"[a-z_]+":(?:"[^"\\]*"|\d+|null),)*"choices":\[/;

/** vLLM's words and order, as pydantic writes them; anything else is parsed. */
const choicePattern = new RegExp(
  String.raw`\{"index":0,"delta":\{(?:"(content|reasoning|reasoning_content)":"(${inside})"|"tool_calls":\[\{"index":(\d{1,9}),"function":\{"arguments":"(${inside})"\}\}\])?\},` +
    String.raw`"logprobs":\{"content":\[\{"token":"(?!token_id:)${inside}","logprob":(-?\d[\d.eE+-]*),"bytes":(?:null|\[[\d,]*\]),"top_logprobs":\[\]\}\]\},` +
    String.raw`"finish_reason":null,(?:"stop_reason":null,)?"token_ids":\[(\d{1,9})\]\}\](?:,"usage":null)?\}$`,
  'y',
);

/** A string of its own: the chunk's text is not to live as long as a piece of it. */
function unescaped(text: string): string {
  return text.length < 13 && !text.includes('\\') ? text : (JSON.parse(`"${text}"`) as string);
}

/** Reads the chunks that most of a stream consists of at a fraction of what parsing them costs. */
export class TokenChunkScan {
  #head = '';

  /** Null for a chunk that is to be parsed. */
  scan(data: string): TokenChunk | null {
    if (this.#head === '' || !data.startsWith(this.#head)) {
      this.#head = headPattern.exec(data)?.[0] ?? '';
      if (this.#head === '') return null;
    }
    choicePattern.lastIndex = this.#head.length;
    const match = choicePattern.exec(data);
    if (match === null) return null;
    const [, field, said, index, given, logprob, id] = match;
    const number = Number(logprob);
    if (Number.isNaN(number)) return null;
    const kind =
      field !== undefined
        ? field === 'content'
          ? field
          : 'reasoning'
        : given === undefined
          ? null
          : 'arguments';
    try {
      return {
        id: Number(id),
        logprob: Math.fround(number),
        kind,
        text: unescaped(said ?? given ?? ''),
        index: Number(index ?? 0),
      };
    } catch {
      return null; // No JSON: what parses it says so.
    }
  }
}
