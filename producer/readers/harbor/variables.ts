import type { Notes } from './notes.ts';
import { parts } from './task-files.ts';

/**
 * The variables of a section, as they are known here. One that is to come from the environment of whoever runs Harbor has
 * only its default: what is in that environment, keys among it, has no place in a task.
 */
export function variablesOf(
  given: Readonly<Record<string, string>> | undefined,
  field: string,
  notes: Notes,
): Record<string, string> {
  const taken: Record<string, string> = {};
  for (const [name, value] of Object.entries(given ?? {}).sort(([a], [b]) => (a < b ? -1 : 1))) {
    const at = `${field}.${name}`;
    if (!/^[A-Za-z_]\w*$/.test(name)) {
      notes.fault(parts.config, at, 'is no name of an environment variable');
      continue;
    }
    const [, variable, preset] = /^\$\{([^}:]+)(?::-([^]*))?\}$/.exec(value) ?? [];
    if (variable === undefined) taken[name] = value;
    else if (preset === undefined) {
      notes.fault(parts.config, at, `is to be ${variable} of the host's environment, which no task is given`);
    } else {
      notes.warn(parts.config, at, `has its default: tasks are given nothing of the host's environment`);
      taken[name] = preset;
    }
    if (/[\0\r\n]/.test(taken[name] ?? '')) {
      notes.fault(parts.config, at, 'has more than one line');
      delete taken[name];
    }
  }
  return taken;
}

/** A word that a shell takes as it is. */
export function shellQuoted(text: string): string {
  return /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`;
}
