import {
  certificateNoteSchema,
  untrainableReasonSchema,
  type CallRecord,
  type Certificate,
  type CertificateNote,
  type Turn,
  type UntrainableReason,
} from '../contracts/index.ts';
import { callReasons } from './call-checks.ts';
import type { Chain } from './chains.ts';

function versionNotes(calls: readonly CallRecord[]): CertificateNote[] {
  const versions = new Set(calls.flatMap((call) => [call.version_start, call.version_end]));
  const unknown = versions.delete(null);
  const spanned = new Set(calls.flatMap((call) => (call.version_spans ?? []).map(({ version }) => version)));
  const notes: CertificateNote[] = [];
  if (versions.size > 1 || spanned.size > 1) notes.push('mixed_version');
  if (unknown && versions.size > 0) notes.push('version_uncertain');
  return notes;
}

/** In the order of the closed lists, each once, so that equal certificates are equal as text. */
function ordered<T extends string>(list: readonly T[], found: ReadonlySet<T>): T[] {
  return list.filter((item) => found.has(item));
}

/**
 * What a sequence is worth: every reason and note of the calls whose sampled tokens it holds. Faults of calls that
 * stand in it only as prompt do not count: their tokens are masked, and the engine's own prompt ids vouch for them.
 *
 * `imageFrom` is the index of the agent's first call that brought an image (Infinity: none did). Later prompts hold it
 * too, whatever chain they are in.
 */
export function certify(chain: Chain, turns: readonly Turn[], imageFrom: number): Certificate {
  const reasons = new Set<UntrainableReason>(chain.calls.flatMap(callReasons));
  if (chain.calls.at(-1)!.index >= imageFrom) reasons.add('multimodal_inputs_absent');

  const notes = new Set<CertificateNote>(chain.calls.flatMap((call) => call.notes));
  for (const note of versionNotes(chain.calls)) notes.add(note);
  if (turns.some((turn) => turn.truncated)) notes.add('truncated_turn');
  if (new Set(chain.calls.map((call) => call.replica)).size > 1) notes.add('replica_moved');

  return {
    grade: reasons.size > 0 ? 'untrainable' : chain.siblings > 1 ? 'forked' : 'exact',
    reasons: ordered(untrainableReasonSchema.options, reasons),
    notes: ordered(certificateNoteSchema.options, notes),
  };
}
