import { firstPieceId } from './special-tokens.ts';

const alphabet = 'abcdefghijklmnopqrstuvwxyz';

const words =
  `a about above add after again all also an and answer any append are arg args argument arguments array as assert
assistant async at await back bash be because been before between bool both break build but by bytes call can case cat cd
change check class clear close code command complete content continue copy correct could count create cwd data date days
def default define delete description dict directory do does done down each echo edit else empty end environment error
even every example except expected export fail failed false file files final find first fix float follow for format from
function functions get give given glob go good greater grep had handle has have he head here how if implement import in
index input install instead int integer into is it item items its join json just keep key keys know last len length less
let like line lines list local log look loop made make many map match max me mean median message min missing module more
most must my name need new next no none not nothing now null number object of off old on once one only open or order os
other out output over parse pass passed path pattern please point print problem program project prompt property public
pull push put python query raise range raw read really reason reasoning remove rename replace report request required
result results return right root run running same say script search second see self set shell should show since size so
solution some sort sorted source split start state static step stop str string strip such sum sure switch system table
take task test tests text than that the their them then there these they thing think this those three through time to
token tool tools top total true try turn two type under until up update use used user using value values variable verify
version very wait want was way we were what when where which while who why will with without word words work working
workspace would write wrong yes you your zero`
    .split(/\s+/)
    .filter((word) => word !== '');

const punctuation = [
  '{"',
  '"}',
  '"}}',
  '": "',
  '":"',
  '": ',
  '", "',
  '","',
  '": {"',
  '": [',
  '"]',
  '"],',
  '},',
  '}, {"',
  '[]',
  '{}',
  '()',
  '(self',
  '):',
  '):\n',
  ')\n',
  ',\n',
  ':\n',
  ';\n',
  '.\n',
  '.\n\n',
  ', ',
  ': ',
  '. ',
  '; ',
  ' = ',
  ' == ',
  ' != ',
  ' + ',
  ' - ',
  ' * ',
  ' / ',
  ' < ',
  ' > ',
  ' <= ',
  ' >= ',
  ' && ',
  ' || ',
  ' | ',
  ' -',
  ' --',
  ' "',
  " '",
  ' (',
  ' [',
  ' {',
  ' #',
  '# ',
  '##',
  '## ',
  '- ',
  '--',
  '->',
  '=>',
  '==',
  '!=',
  '//',
  '/*',
  '*/',
  '...',
  '```',
  '``',
  '\\n',
  '\\n\\n',
  '\\"',
  '\\\\',
  '\\t',
  '\\u',
  '\\n    ',
  '\\n        ',
  '\\n  ',
  '.py',
  '.md',
  '.txt',
  '.json',
  '.js',
  '.ts',
  './',
  '../',
  '/tmp',
  '/workspace',
  '/usr',
  '/bin',
  '$(',
  '${',
  '%s',
  "'s",
  "n't",
  '"\n',
  "'\n",
  '")',
  "')",
  '("',
  "('",
  '):\\n',
  ')\\n',
  'file_path',
  'old_string',
  'new_string',
  'additionalProperties',
];

const suffixes =
  'ing tion sion ment ness able ible ally ated ates ity ies ive ous ful less ers est ance ence'.split(' ');

const capital = (word: string): string => word.charAt(0).toUpperCase() + word.slice(1);

/**
 * The merged pieces in order of id, from `firstPieceId` on. ASCII only: every other character is made of its bytes.
 * The list is part of the tokenizer: changing it changes ids.
 */
function buildPieces(): string[] {
  const pieces = new Set<string>();
  for (let run = 2; run <= 16; run += 1) pieces.add(' '.repeat(run));
  for (let run = 2; run <= 4; run += 1) pieces.add('\n'.repeat(run)).add('\t'.repeat(run));
  for (let run = 1; run <= 16; run += 1) pieces.add(`\n${' '.repeat(run)}`);
  for (const text of punctuation) pieces.add(text);
  for (let number = 0; number < 100; number += 1) pieces.add(String(number).padStart(2, '0'));
  for (const first of alphabet) {
    pieces.add(` ${first}`).add(` ${first.toUpperCase()}`);
    for (const second of alphabet) pieces.add(first + second);
  }
  for (const suffix of suffixes) pieces.add(suffix);
  for (const word of words) {
    for (const form of [word, capital(word)]) pieces.add(form).add(` ${form}`);
  }
  return [...pieces].filter((piece) => piece.length > 1);
}

export const pieces: readonly string[] = buildPieces();
export const vocabularySize = firstPieceId + pieces.length;

// A trie over 7-bit characters: children[node * 128 + byte] is the next node, 0 for none; ids[node] is a piece or 0.
function buildTrie(): { children: Uint16Array; ids: Uint16Array } {
  const nodes = 1 + pieces.reduce((total, piece) => total + piece.length, 0);
  const children = new Uint16Array(nodes * 128);
  const ids = new Uint16Array(nodes);
  let used = 1;
  pieces.forEach((piece, index) => {
    let node = 0;
    for (let at = 0; at < piece.length; at += 1) {
      const slot = node * 128 + piece.charCodeAt(at);
      let next = children[slot] ?? 0;
      if (next === 0) {
        next = used;
        used += 1;
        children[slot] = next;
      }
      node = next;
    }
    ids[node] = firstPieceId + index;
  });
  return { children, ids };
}

const trie = buildTrie();

export interface PieceMatch {
  readonly id: number;
  /** Bytes of the piece. */
  readonly length: number;
}

/** The longest piece that begins at `at`; a single byte when there is none. Units from 256 on are not bytes. */
export function longestAt(units: ArrayLike<number>, at: number): PieceMatch {
  let id = units[at] ?? 0;
  let length = 1;
  let node = 0;
  for (let end = at; end < units.length; end += 1) {
    const unit = units[end] ?? 0;
    if (unit >= 128) break;
    node = trie.children[node * 128 + unit] ?? 0;
    if (node === 0) break;
    const found = trie.ids[node] ?? 0;
    if (found !== 0) {
      id = found;
      length = end - at + 1;
    }
  }
  return { id, length };
}

/** Every token that can begin at `at`, shortest (the single byte) first. */
export function matchesAt(units: ArrayLike<number>, at: number): PieceMatch[] {
  const matches: PieceMatch[] = [{ id: units[at] ?? 0, length: 1 }];
  let node = 0;
  for (let end = at; end < units.length; end += 1) {
    const unit = units[end] ?? 0;
    if (unit >= 128) break;
    node = trie.children[node * 128 + unit] ?? 0;
    if (node === 0) break;
    const found = trie.ids[node] ?? 0;
    if (found !== 0) matches.push({ id: found, length: end - at + 1 });
  }
  return matches;
}
