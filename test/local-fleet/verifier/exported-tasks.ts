import { existsSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

export interface ExportedTask {
  readonly key: string;
  readonly verifier_func: string;
}

const file = fileURLToPath(new URL('../../../../shared/data/fleet_booking_tasks.json', import.meta.url));

/** Why the tests over real exported tasks are skipped, or null. */
export const noExportedTasks = existsSync(file)
  ? null
  : `there are no exported tasks at ../shared/data beside the project`;

export function exportedTasks(): ExportedTask[] {
  return JSON.parse(readFileSync(file, 'utf8')) as ExportedTask[];
}

/** Tables whose key has several columns, as the verifiers' comments tell. */
const compositeKeys: Readonly<Record<string, readonly string[]>> = {
  wishlist_lists: ['user_id', 'list_name'],
  saved_properties: ['user_id', 'hotel_id', 'list_name'],
};

/**
 * A schema in which a verifier's queries run: every table it names, each with every column it could mean. The change is a
 * new row in every table, so that it goes on after it has looked for one.
 */
export function scratchDatabase(source: string): { seed: string; changes: string } {
  const named = (pattern: RegExp): string[] => [...source.matchAll(pattern)].map((match) => match[1] ?? '');
  const tables = new Set([
    ...named(/\.table\(\s*["'](\w+)["']/g),
    ...named(/find_new_entries\(\s*["'](\w+)["']/g),
    ...named(/["']table["']:\s*["'](\w+)["']/g),
  ]);
  const words = [...named(/["']([a-z][a-z0-9_]{0,60})["']/g), ...Object.values(compositeKeys).flat()];
  const columns = [...new Set(words)].filter((name) => name !== 'id');
  const quoted = ['id', ...columns].map((name) => `"${name}"`).join(', ');
  const row = (table: string, id: number): string =>
    `INSERT INTO "${table}" VALUES (${[id, ...columns.map(() => `'${id}'`)].join(', ')});`;
  return {
    seed: [...tables]
      .map((table) => {
        const key = compositeKeys[table] ?? ['id'];
        return `CREATE TABLE "${table}" (${quoted}, PRIMARY KEY (${key.join(', ')})); ${row(table, 1)}`;
      })
      .join('\n'),
    changes: [...tables].map((table) => row(table, 2)).join('\n'),
  };
}
