import { readFileSync } from 'node:fs';
import { noteOf, variableNames, type VariableName } from './environment.ts';
import type { SettingsFault } from './settings-error.ts';

/** A value that goes over a variable, usually from a flag; `from` is what fault messages call it. */
export type SettingsOverrides = {
  readonly [K in VariableName]?: string | { readonly value: string; readonly from: string } | undefined;
};

/** The text of one variable and where it came from. */
interface SourcedText {
  readonly text: string;
  readonly from: string;
}

/** The environment's texts by variable, before any is read. */
export interface Sources {
  readonly texts: Readonly<Partial<Record<VariableName, SourcedText>>>;
  readonly faults: readonly SettingsFault[];
}

// Kubernetes puts such variables into every pod of a namespace with a service named rollpool or rollpool-redis.
const serviceLink = /_(SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT(_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)?)$/;

/** An empty variable counts as absent: that is what `VARIABLE: ${VARIABLE:-}` in a compose file gives. */
function present(value: string | undefined): value is string {
  return value !== undefined && value.trim() !== '';
}

function readSecret(path: string): { text: string } | { problem: string } {
  try {
    const text = readFileSync(path, 'utf8').trim();
    return text === '' ? { problem: `the file ${path} is empty` } : { text };
  } catch (cause) {
    return { problem: `cannot read ${path} (${(cause as NodeJS.ErrnoException).code ?? 'unknown error'})` };
  }
}

/** Number of edits between two words, for telling someone what they may have meant. */
function distance(a: string, b: string): number {
  let row = Array.from({ length: b.length + 1 }, (_item, index) => index);
  for (let i = 1; i <= a.length; i++) {
    const next = [i];
    for (let j = 1; j <= b.length; j++) {
      const changed = (row[j - 1] ?? 0) + (a[i - 1] === b[j - 1] ? 0 : 1);
      next.push(Math.min(changed, (row[j] ?? 0) + 1, (next[j - 1] ?? 0) + 1));
    }
    row = next;
  }
  return row[b.length] ?? 0;
}

function unknownVariable(name: string, known: readonly string[]): SettingsFault {
  const [closest] = known
    .map((candidate) => ({ candidate, edits: distance(name, candidate) }))
    .sort((a, b) => a.edits - b.edits);
  const hint = closest !== undefined && closest.edits <= 2 ? `; did you mean ${closest.candidate}?` : '';
  return { variable: name, problem: `there is no such variable${hint}` };
}

/** Collects the text of every variable: an override, else the variable itself, else the file its `_FILE` variant names. */
export function collectSources(
  env: Readonly<Record<string, string | undefined>>,
  overrides: SettingsOverrides,
): Sources {
  const texts: Partial<Record<VariableName, SourcedText>> = {};
  const faults: SettingsFault[] = [];
  const known = new Set<string>();
  for (const name of variableNames) {
    known.add(name);
    const value = env[name];
    if (present(value)) texts[name] = { text: value, from: name };
    if (noteOf(name).secret) {
      const fileVariable = `${name}_FILE`;
      known.add(fileVariable);
      const path = env[fileVariable];
      if (present(path)) {
        if (present(value)) {
          faults.push({ variable: fileVariable, problem: `is given beside ${name}; give one of the two` });
        } else {
          const secret = readSecret(path);
          if ('text' in secret) texts[name] = { text: secret.text, from: fileVariable };
          else faults.push({ variable: fileVariable, problem: secret.problem });
        }
      }
    }
    const override = overrides[name];
    if (override !== undefined) {
      texts[name] =
        typeof override === 'string'
          ? { text: override, from: name }
          : { text: override.value, from: override.from };
    }
  }
  for (const name of Object.keys(env)) {
    if (name.startsWith('ROLLPOOL_') && !known.has(name) && !serviceLink.test(name) && present(env[name])) {
      faults.push(unknownVariable(name, [...known]));
    }
  }
  return { texts, faults };
}
