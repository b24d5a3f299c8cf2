import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { normaliseTask } from '../../../producer/index.ts';
import { loadEnvironments } from '../../../src/local-fleet/environment/index.ts';
import { score } from '../shipped/score.ts';
import { temporary, writeFolder } from './folder.ts';

const page = await readFile(new URL('../../../docs/local-fleet.md', import.meta.url), 'utf8');

/** Blocks that stand below a line with only a file's name. */
const files = new Map(
  [...page.matchAll(/^`([^`\n]+)`\n\n```\w+\n([\s\S]*?)\n```$/gm)].map(([, name, text]) => [name!, text!]),
);

it('the example of docs/local-fleet.md works as it stands there', async () => {
  await using folder = await temporary();
  const below = 'environments/library/';
  const own = [...files].filter(([name]) => name.startsWith(below));
  await writeFolder(folder.path, {
    ...{ 'environment.json': undefined, 'seed/small.sql': undefined },
    ...Object.fromEntries(own.map(([name, text]) => [name.slice(below.length), text])),
  });
  const [library] = await loadEnvironments(folder.path);
  const [given] = JSON.parse(files.get('tasks.json')!) as unknown[];
  const read = normaliseTask(given);
  if (!('task' in read) || read.task.kind !== 'fleet') throw new Error(`no task: ${JSON.stringify(read)}`);

  await using database = await library!.open({
    directory: join(folder.path, 'instances'),
    data_key: library!.default_data_key,
    variables: read.task.env_variables,
  });
  expect(await score(read.task, database)).toMatchObject({ success: true, result: 0 });
  expect(database.callTool('find_books', { title: 'sea' })).toMatchObject({ value: { length: 2 } });
  expect(database.callTool('lend_book', { book_id: 2 })).toEqual({
    error: 'All copies of The Seagull are lent.',
  });
  expect(database.callTool('lend_book', { book_id: 1, weeks: 3 })).toEqual({
    value: { title: 'The Sea', loan: { id: 2, due_on: '2026-04-06' } },
  });
  expect(await score(read.task, database)).toMatchObject({ success: true, result: 1 });
});
